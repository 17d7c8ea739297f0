"""The comparison service: runs below some folders as pages and an API, live ones included, and a
queue of jobs (Starlette, uvicorn).
"""
