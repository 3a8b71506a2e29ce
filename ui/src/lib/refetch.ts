import { onDestroy } from 'svelte'

/**
 * Returns a function that fetches again, one request at a time.
 *
 * Calls made while a request is under way lead to one more request when it has finished. Data that changes faster than it
 * can be fetched is therefore still shown.
 *
 * `fetch` looks up by itself what to fetch, never rejects, and resolves to a function that shows the result. That function
 * is called only while the component exists.
 */
export function refetcher(fetch: () => Promise<() => void>): () => void {
  let fetching = false
  let again = false
  let destroyed = false
  onDestroy(() => (destroyed = true))
  return function refetch() {
    again = fetching
    if (fetching) return
    fetching = true
    void fetch().then((show) => {
      fetching = false
      if (destroyed) return
      show()
      if (again) refetch()
    })
  }
}
