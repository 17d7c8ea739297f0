"""The comparison service: runs below some folders as pages and an API, including those still going
on, and a queue of jobs (Starlette, uvicorn).
"""
