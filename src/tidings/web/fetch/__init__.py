"""The only way to the network: every connection is checked, every body is bounded.

fetcher.py   `Fetcher`: the checked call of a request, redirects, retries, one deadline
rates.py     how often and how many at once, for each host
robots.py    robots.txt
client.py    one request and its bounded answer; `Guard`, which resolves names, and connects to checked addresses alone
guard.py     the rules: which domains, ports and addresses are allowed
urls.py      URLs in one form
request.py   requests, responses and errors
"""
