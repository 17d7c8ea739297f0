"""One operator, element by element: where its error sits, what it looks like, and every element as
text.
"""
