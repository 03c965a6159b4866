"""Programs that run in another process, or on another machine: `axla serve`, and `axla.connect`.

    messages.py      what they say to each other (messages.txt), errors as messages
    transport.py     what it goes over: a unix socket with shared memory; and what others must do
    supervisor.py    the server: lets clients in, starts a worker process for each, watches and counts
    worker.py        the process of one client
    session.py       what a worker does with requests: programs and arrays by number
    link.py          the client's end: calls and answers
    remote.py        the backend `remote`: its client, executables and arrays

Read docs/design/0013-service.md first.
"""
