/** One of a server's lists, fetched when it is first shown and again whenever it changed. */
import * as api from './api'
import type { ErrorFacts, ListName } from './api'
import type { ServerStore } from './store.svelte'

type Items<L extends ListName> = Awaited<ReturnType<typeof api.list<L>>>

export function listing<L extends ListName>(server: () => ServerStore, name: L) {
  let found = $state.raw<Items<L> | null>(null)
  let error = $state.raw<ErrorFacts | null>(null)
  $effect(() => {
    const one = server()
    void one.lists[name]
    let stale = false
    api.list(one.name, name).then(
      (items) => { if (!stale) { found = items; error = null } },
      (failure: unknown) => { if (!stale && failure instanceof api.ApiError) error = failure.facts },
    )
    return () => { stale = true }
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
