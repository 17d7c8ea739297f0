#!/bin/sh
# usage: sh ci.sh DUMP GOLDEN MODEL.json [BASELINE], where BASELINE holds the run.sqlite of a run that was accepted.
# Ends with 1 if numbers are wrong or became worse; with another code except 0 if that could not be decided.
if [ "$#" -lt 3 ] || [ "$#" -gt 4 ]; then
    echo "usage: sh ci.sh DUMP GOLDEN MODEL.json [BASELINE]" >&2
    exit 2
fi
out=goldwatch-out
rm -rf "$out" # otherwise the reports of an earlier job stay if this one writes none
goldwatch compare "$1" "$2" -f "$3" -o "$out" --junit "$out/junit.xml" --markdown "$out/comment.md"
code=$?
case $code in
0 | 1 | 3) compared=yes ;; # else there is no result of this run: nothing to be compared with the baseline
*) compared= ;;
esac
if [ -n "$compared" ] && [ -n "$4" ]; then
    if [ -f "$4/run.sqlite" ]; then
        goldwatch diff "$4" "$out" --markdown "$out/diff.md" --junit "$out/diff.xml"
        worse=$?
        [ "$code" -ne 0 ] || code=$worse
    else
        echo "no baseline yet: if this run is accepted, copy $out/run.sqlite into $4" >&2
    fi
fi
[ "$code" -le 1 ] || echo "exit code $code: not the accuracy, but the files, the command or the machine" >&2
exit "$code"
