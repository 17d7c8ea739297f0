"""Pages to look at: one offline HTML file each, and the scripts and styles that the live page is
made of too.
"""
