"""The one way to the network: every connection is vetted, every body is bounded.

One request, from the URL to its bytes:

    fetch.py       Fetcher: robots.txt, turns, attempts, redirects, one deadline
    plan.py        what a request comes down to, checked before anything is sent
    trips.py       one call of `fetch` on its way
    rates.py       turns at a host; retries.py: when to ask again
    robots.py      robots.txt, after RFC 9309
    client.py      one request and its answer, HTTP/1.1 or HTTP/2
    guard.py       the one way to a socket: resolve, vet every address, connect to a vetted one
    policy.py      which domains, ports and addresses; addresses.py: what an address is
    bodies.py      bodies within their limits; packings.py: gzip, deflate and Brotli, undone piece by piece
    urls.py        URLs in one form
    model.py       requests, responses, limits and errors

May import nothing else of `web`. What is heavy is imported with the first request.
"""
