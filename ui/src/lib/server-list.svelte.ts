/** One of a server's lists, fetched when it is first shown and again whenever it changed. */
import { untrack } from 'svelte'
import * as api from './api'
import type { ErrorFacts, ListName } from './api'
import { refetcher } from './refetch'
import type { ServerStore } from './store.svelte'

type Items<L extends ListName> = Awaited<ReturnType<typeof api.list<L>>>

export function serverList<L extends ListName>(server: () => ServerStore, name: L) {
  let found = $state.raw<Items<L> | null>(null)
  let error = $state.raw<ErrorFacts | null>(null)
  const ask = refetcher(() => {
    const one = server()
    return api.list(one.name, name).then(
      (items) => () => { if (one === server()) { found = items; error = null } },
      (failure: unknown) => () => { if (one === server() && failure instanceof api.ApiError) error = failure.facts },
    )
  })
  $effect(() => {
    void server().lists[name]
    untrack(ask)
  })
  return {
    get items(): Items<L>['items'] {
      return found?.items ?? []
    },
    get malformed() {
      return found?.malformed ?? []
    },
    get duplicates() {
      return found?.duplicates ?? []
    },
    get loaded() {
      return found !== null
    },
    get error() {
      return error
    },
  }
}
