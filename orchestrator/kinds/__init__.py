"""What a file or a folder is, told by its content and not by what it was given as; what to give in
its place.
"""
