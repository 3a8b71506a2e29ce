/** One of a server's lists: fetched when first shown, and again whenever it changes. */
import { untrack } from 'svelte'
import * as api from './api'
import type { ErrorFacts, ListName } from './api'
import { refetcher } from './refetch'
import type { ServerStore } from './store.svelte'

type Items<L extends ListName> = Awaited<ReturnType<typeof api.list<L>>>

export function serverList<L extends ListName>(server: () => ServerStore, name: L) {
  let found = $state.raw<Items<L> | null>(null)
  let error = $state.raw<ErrorFacts | null>(null)
  const refetch = refetcher(() => {
    const asked = server()
    return api.list(asked.name, name).then(
      (items) => () => { if (asked === server()) { found = items; error = null } },
      (failure: unknown) => () => { if (asked === server()) error = api.errorFacts(failure) ?? error },
    )
  })
  $effect(() => {
    void server().lists[name]
    untrack(refetch)
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
