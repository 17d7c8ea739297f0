#!/bin/sh
# usage: sh ci.sh DUMP GOLDEN MODEL.json [BASELINE], where BASELINE holds the run.sqlite of a run that was accepted.
# Ends with 1 if numbers are wrong or became worse; with another code except 0 if that could not be decided.
out=goldwatch-out
rm -rf "$out" # otherwise the reports of an earlier job stay if this one writes none
goldwatch compare "$1" "$2" -f "$3" -o "$out" --junit "$out/junit.xml" --markdown "$out/comment.md"
code=$?
if [ -n "$4" ] && [ -f "$out/run.sqlite" ]; then
    goldwatch diff "$4" "$out" --markdown "$out/diff.md" --junit "$out/diff.xml"
    worse=$?
    [ "$code" -ne 0 ] || code=$worse
fi
[ "$code" -le 1 ] || echo "exit code $code: not the accuracy, but the files, the command or the machine" >&2
exit "$code"
