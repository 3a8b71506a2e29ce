/**
 * The state of the page: a copy of the session in Python, loaded as a snapshot and updated by the stream.
 *
 * Screens read it and call `api`; only this file changes it.
 */
import * as api from './api'
import { visible } from './text-lines'
import type { Batch, FactsDelta, Row, RowKind, RowsByKind, ServerFacts } from './api'
import { RowLog } from './row-log.svelte'
import { followStream, type ConnectionState } from './stream'

/** The seconds that the charts of changes cover, at the most. */
export const PACE_SECONDS = 3_600
/** Resources of a server that the page watches by itself, so that something can be seen to change. */
export const WATCHED_AT_ONCE = 5

/** One server: its facts (replaced when they change) and its rows by kind. */
export class ServerStore {
  readonly name: string
  facts = $state.raw<ServerFacts>() as ServerFacts
  readonly rows: { readonly [K in RowKind]: RowLog<RowsByKind[K]> } = {
    change: new RowLog(), message: new RowLog(), notification: new RowLog(), log: new RowLog(),
    stderr: new RowLog(), request: new RowLog(), exchange: new RowLog(), state: new RowLog(),
  }
  /** Counters that rise when a list may have changed: read them in an effect that fetches. */
  lists = $state({ tools: 0, resources: 0, templates: 0, prompts: 0 })

  constructor(facts: ServerFacts) {
    this.name = facts.name
    this.facts = facts
  }

  apply(delta: FactsDelta): void {
    const { subscriptions, all_subscriptions, pace, ...plain } = delta
    const facts = { ...this.facts, ...plain }
    if (subscriptions) facts.subscriptions = all_subscriptions ? subscriptions : { ...facts.subscriptions, ...subscriptions }
    if (pace) {
      // The newest seconds are sent again, in order.
      const [from, oldest] = [pace[0]?.[0] ?? Infinity, Date.now() / 1000 - PACE_SECONDS]
      facts.pace = [...facts.pace.filter(([second]) => second >= oldest && second < from), ...pace]
    }
    for (const name of ['tools', 'resources', 'templates', 'prompts'] as const)
      if (plain.lists && plain.lists[name].at !== this.facts.lists[name].at) this.lists[name]++
    this.facts = facts
  }

  /** The server's own name, if the name of its entry was only derived from a command or an address. */
  get title(): string {
    const own = this.facts.server_info?.title ?? this.facts.server_info?.name
    if (!own || this.facts.entry?.derived !== true) return visible(this.name)
    return visible(store.servers.some((one) => one !== this && one.facts.server_info?.name === this.facts.server_info?.name) ? `${own} (${this.name})` : own)
  }
  /** The server answered at least once. */
  get answered(): boolean {
    return this.facts.protocol_version !== null
  }
  get canSubscribe(): boolean {
    const { resources, subscriptions } = this.facts.capabilities as { resources?: { subscribe?: boolean }; subscriptions?: unknown }
    return resources?.subscribe === true || (subscriptions !== undefined && subscriptions !== null)
  }
  get openQuestions(): number {
    return Object.keys(this.facts.questions).length
  }
}

class Store {
  /** The connection to the inspector itself. */
  connection = $state<ConnectionState>('starting')
  version = $state('')
  catalog = $state.raw<api.Hello['catalog']>({ path: null, read_only: true })
  failure = $state.raw<api.ErrorFacts | null>(null)
  servers = $state.raw<ServerStore[]>([])
  saved = $state.raw<api.SavedCall[]>([])
  /** rows that the stream left out because the page was slow; Python keeps them */
  skippedRows = $state(0)
  /** the inspector's clock, once a second, for texts such as "3 s ago" */
  now = $state(Date.now() / 1000)
  /** counters that rise when the catalog, the saved sessions or the tour changed */
  stale = $state({ catalog: 0, sessions: 0, tour: 0, 'sign-in': 0 })
  hasTour = $state(false)
  /** the kept session that all screens show, and the moment of it; null: the running one */
  kept = $state.raw<{ id: string; name: string; moments: [number, number][]; records: number; place: number } | null>(null)
  /** the panel of questions is open */
  questionsOpen = $state(false)
  #close: (() => void) | undefined
  #skew = 0

  server(name: string | null): ServerStore | undefined {
    return this.servers.find((server) => server.name === name)
  }

  async start(): Promise<void> {
    setInterval(() => { if (!this.kept) this.now = Date.now() / 1000 + this.#skew }, 1000)
    try {
      await exchangeToken()
      await this.load()
    } catch (error) {
      if (error instanceof api.ApiError && error.status === 401) this.connection = 'locked'
      else throw error
    }
  }

  /** Shows a kept session in all screens, as it was at one of its moments; by default at its end. */
  async openKept(id: string, name: string, place?: number): Promise<void> {
    this.#close?.()
    api.showSession('')
    const { moments, records } = await api.openSession(id, place === undefined ? undefined : this.kept?.moments[place]?.[0])
    api.showSession(id)
    const snapshot = await api.snapshot()
    this.servers = snapshot.servers.map((facts) => new ServerStore(facts))
    this.kept = { id, name, moments, records, place: place ?? moments.length - 1 }
    this.now = moments[this.kept.place]?.[1] ?? snapshot.now
    this.questionsOpen = false
    await this.#loadHistory(snapshot.seq)
  }
  async closeKept(): Promise<void> {
    api.showSession('')
    this.kept = null
    await this.load()
  }

  async load(): Promise<void> {
    this.#close?.()
    let hello = await api.hello()
    // The page is served a moment before the session is ready.
    while (!hello.ready && !hello.error) {
      await new Promise((done) => setTimeout(done, 60))
      hello = await api.hello()
    }
    this.version = hello.version
    this.catalog = hello.catalog
    this.failure = hello.error
    this.hasTour = hello.tour
    const [snapshot, { saved }] = await Promise.all([api.snapshot(), api.saved()])
    this.#skew = snapshot.now - Date.now() / 1000
    this.now = snapshot.now
    this.servers = snapshot.servers.map((facts) => new ServerStore(facts))
    this.saved = saved
    this.skippedRows = 0
    this.connection = 'live'
    await this.#loadHistory(snapshot.seq)
    this.#close = followStream(snapshot.seq, {
      batch: (batch) => this.apply(batch),
      reset: () => void this.load().catch(() => (this.connection = 'reconnecting')),
      connection: (state) => (this.connection = state),
    })
  }

  /** Loads the rows up to a snapshot; the stream delivers later ones. */
  async #loadHistory(upTo: number): Promise<void> {
    let after = 0
    for (let more = true; more; ) {
      const past = await api.rows(after)
      this.#add(past.rows.filter((row) => row.seq <= upTo))
      more = past.more && past.to < upTo
      after = past.to
    }
  }

  apply(batch: Batch): void {
    this.#skew = batch.now - Date.now() / 1000
    for (const [name, delta] of Object.entries(batch.facts)) {
      const server = this.server(name)
      if (delta === null) this.servers = this.servers.filter((one) => one.name !== name)
      else if (server) server.apply(delta)
      else this.servers = [...this.servers, new ServerStore(delta as ServerFacts)]
    }
    this.#add(batch.rows)
    this.skippedRows += batch.held
    for (const part of batch.stale ?? []) {
      if (part === 'saved') void api.saved().then(({ saved }) => (this.saved = saved))
      else this.stale[part]++
    }
  }

  #add(rows: readonly Row[]): void {
    const byServer = new Map<string, Map<RowKind, Row[]>>()
    for (const row of rows) {
      let kinds = byServer.get(row.server)
      if (!kinds) byServer.set(row.server, (kinds = new Map()))
      const some = kinds.get(row.kind)
      if (some) some.push(row)
      else kinds.set(row.kind, [row])
    }
    for (const [name, kinds] of byServer) {
      const server = this.server(name)
      if (!server) continue
      for (const [kind, some] of kinds) {
        const log = server.rows[kind] as RowLog<Row> | undefined
        if (kind === 'request' || kind === 'exchange' || kind === 'change' || kind === 'message') addOrUpdate(log as RowLog<Row>, some)
        else log?.append(some)
      }
    }
  }
}

/**
 * Adds rows, or updates them: a request, an exchange or a change is reported several times. The first report of a row may
 * arrive after that of a later row.
 */
function addOrUpdate(log: RowLog<Row>, rows: readonly Row[]): void {
  let fresh: Row[] = []
  let last = log.last()?.seq ?? -1
  for (const row of rows) {
    if (row.seq > last) {
      fresh.push(row)
      last = row.seq
    } else {
      log.append(fresh)
      fresh = []
      log.update(row)
    }
  }
  log.append(fresh)
}

/** Exchanges the token in the address for a cookie, once, and removes it from the address and the history. */
async function exchangeToken(): Promise<void> {
  const found = /^#token=([^&]+)(?:&to=(.*))?$/.exec(location.hash)
  if (!found) return
  history.replaceState(null, '', found[2] ? `#${decodeURIComponent(found[2])}` : location.pathname)
  dispatchEvent(new HashChangeEvent('hashchange'))
  // A link opens once. Whoever has entered already needs none.
  await api.exchangeToken(found[1] as string).catch((error: unknown) => { if (!(error instanceof api.ApiError && error.status === 401)) throw error })
}

export const store = new Store()
