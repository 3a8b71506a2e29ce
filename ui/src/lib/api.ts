/** The inspector's HTTP API, typed. Each function is one endpoint; what goes wrong is thrown as `ApiError`. */
import { parseJson } from './exact-json'
import type * as T from './types'

export * from './types'

export class ApiError extends Error {
  readonly status: number
  readonly facts: T.ErrorFacts
  constructor(status: number, facts: T.ErrorFacts) {
    super(facts.message)
    this.status = status
    this.facts = facts
  }
}

const unreachable: T.ErrorFacts = {
  code: 'inspector-gone', category: 'connection', who: 'this program', help_page: '',
  message: 'The inspector does not answer.', cure: 'Look at the terminal where `tidings inspect` runs, or start it again.',
}

/**
 * What this page says beside its cookie. Browsers send cookies to every port of a machine; this is kept by the browser for
 * our own port alone.
 */
export const KEY = 'tidings.key'
let key = ''
try {
  key = localStorage.getItem(KEY) ?? ''
} catch { /* a browser that keeps nothing: the page holds it until it is closed */ }
/** An address that the browser fetches by itself: it sends no header, so the key is in it. */
const own = (path: string) => `${path}${path.includes('?') ? '&' : '?'}key=${key}`

/** A part of a path. A browser takes `.` and `..` for steps, however they are written: the sign behind them prevents it. */
const part = (text: string) => (/^\.{1,2}$/.test(text) ? `${text}%00` : encodeURIComponent(text))
const query = (values: Record<string, string | number | undefined>): string => {
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(values)) if (value !== undefined) search.set(name, String(value))
  const text = search.toString()
  return text ? `?${text}` : ''
}

async function send(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<Response> {
  const init: RequestInit = { method, credentials: 'same-origin', cache: 'no-store' }
  if (signal) init.signal = signal
  init.headers = { 'X-Tidings': key || '1' }
  if (method !== 'GET') {
    init.headers['Content-Type'] = 'application/json'
    init.body = JSON.stringify(body ?? {})
  }
  let response: Response
  try {
    response = await fetch(path, init)
  } catch (error) {
    if (signal?.aborted) throw error
    throw new ApiError(0, unreachable)
  }
  if (!response.ok) throw new ApiError(response.status, await factsOf(response))
  return response
}

async function factsOf(response: Response): Promise<T.ErrorFacts> {
  try {
    const { error } = (await response.json()) as { error: T.ErrorFacts }
    if (error?.message) return error
  } catch { /* not JSON: the status says it */ }
  const message = response.status === 401 ? 'This page may not see the inspector (any more).' : `The inspector answered ${response.status}.`
  return { ...unreachable, code: `http-${response.status}`, message, cure: 'Open the address that `tidings inspect` printed.' }
}

async function json<R>(method: string, path: string, body?: unknown, signal?: AbortSignal, read: (text: string) => unknown = JSON.parse): Promise<R> {
  const response = await send(method, path, body, signal)
  return (response.status === 204 ? undefined : read(await response.text())) as R
}
const get = <R>(path: string, signal?: AbortSignal) => json<R>('GET', path, undefined, signal)
const post = <R>(path: string, body?: unknown, signal?: AbortSignal) => json<R>('POST', path, body, signal)
/** What is shown or sent as JSON: its numbers stay as they are written (see `exact`). */
const exactly = <R>(path: string, body?: unknown) => json<R>(body === undefined ? 'GET' : 'POST', path, body, undefined, parseJson)
const of = (server: string, rest: string) => `/api/servers/${part(server)}/${rest}`

/** Trade the token for a cookie, and the key that goes with it. */
export async function enter(token: string): Promise<void> {
  key = (await post<{ key: string }>('/api/enter', { token })).key
  try {
    localStorage.setItem(KEY, key)
  } catch { /* see above */ }
}
export const streamUrl = (after: number) => own(`/api/stream?after=${after}`)
export const hello = () => get<T.Hello>('/api/hello')
export const snapshot = () => get<T.Snapshot>('/api/snapshot')
export const rows = (after = 0, limit = 20_000) => get<T.Rows>(`/api/rows${query({ after, limit })}`)
export const record = (seq: number) => exactly<T.RecordFacts>(`/api/record/${seq}`)

interface Items { tools: T.Tool; resources: T.Resource; templates: T.Template; prompts: T.Prompt }
export const list = <L extends T.ListName>(server: string, name: L) => exactly<T.ListItems<Items[L]>>(of(server, `list/${name}`))
export const reload = (server: string, name: T.ListName) => post<void>(of(server, `list/${name}/reload`))
export const request = (server: string, id: string) => exactly<T.RequestFacts>(of(server, `requests/${part(id)}`))
export const content = (server: string, uri: string, version?: number) => exactly<T.Content>(of(server, `content${query({ uri, version })}`))
export const versions = (server: string, uri: string) => get<{ versions: T.VersionFacts[] }>(of(server, `versions${query({ uri })}`))
export const diff = (server: string, uri: string, from: number, to: number) => get<T.Diff>(of(server, `diff${query({ uri, from, to })}`))
/** The address of a content's bytes, for `<img src>` and `<iframe sandbox="" src>`: never run, whatever it is. */
export const blobUrl = (server: string, uri: string, version: number, index = 0) => own(of(server, `blob${query({ uri, version, index })}`))
/** The same for a part of what a request returned. */
export const resultUrl = (server: string, request: string, index = 0) => own(of(server, `blob${query({ request, index })}`))

type Started = { id: string }
export const connect = (server: string) => post<void>(of(server, 'connect'))
export const disconnect = (server: string) => post<void>(of(server, 'disconnect'))
export const reconnect = (server: string) => post<void>(of(server, 'reconnect'))
/** Out of the session; the catalog keeps it. */
export const forget = (server: string) => post<void>(of(server, 'forget'))
export const ping = (server: string) => post<{ ms: number }>(of(server, 'ping'))
/** Starts it; the result comes with a `request` row of this id, and then from `request(server, id)`. */
export const call = (server: string, tool: string, args: T.JsonObject, timeout?: number) =>
  post<Started>(of(server, 'call'), { tool, arguments: args, ...(timeout === undefined ? {} : { timeout }) })
export const read = (server: string, uri: string) => post<Started>(of(server, 'read'), { uri })
export const prompt = (server: string, name: string, args: Record<string, string>) => post<Started>(of(server, 'prompt'), { name, arguments: args })
export const replay = (server: string, method: string, params: T.JsonObject) => post<Started>(of(server, 'request'), { method, params })
export const cancel = (server: string, id: string) => post<{ cancelled: boolean }>(of(server, 'cancel'), { id })
export const subscribe = (server: string, uri: string) => post<void>(of(server, 'subscribe'), { uri })
export const unsubscribe = (server: string, uri: string) => post<void>(of(server, 'unsubscribe'), { uri })
export type CompletionRef = { type: 'ref/prompt'; name: string } | { type: 'ref/resource'; uri: string }
export const complete = (server: string, ref: CompletionRef, argument: { name: string; value: string }, context: Record<string, string> = {}) =>
  post<{ values: string[] }>(of(server, 'complete'), { ref, argument, context })
export const setLogLevel = (server: string, level: string) => post<void>(of(server, 'log-level'), { level })
/** `result` is what the protocol's answer carries: sampling {role, content, model…}, elicitation {action, content}, roots {roots}. */
export const answer = (server: string, id: string, result: T.JsonObject) => post<void>(of(server, 'answer'), { id, result })
/** `decline` is an explicit no to an elicitation, `dismiss` closes it without a choice. */
export const refuse = (server: string, id: string, reason = '', how: 'refuse' | 'decline' | 'dismiss' = 'refuse') =>
  post<void>(of(server, 'refuse'), { id, reason, how })

export const form = (schema: T.Json) => exactly<{ field: T.Field; initial: T.Json }>('/api/form', { schema })
export const toolForm = (server: string, tool: string) => exactly<{ field: T.Field; initial: T.Json }>(of(server, `tools/${part(tool)}/form`))
/** What is wrong with a value, by its schema. */
export const check = (schema: T.Json, value: T.Json) => post<{ problems: T.Problem[] }>('/api/check', { schema, value })

export const catalog = () => get<T.Catalog>('/api/catalog')
/** An entry, or `{target: 'what one would type'}`: a URL, a command, file.json#name. It is connected to. */
export const addServer = (entry: T.CatalogEntry | { target: string; name?: string }) => post<T.CatalogEntry>('/api/catalog', entry)
export const changeServer = (name: string, entry: T.CatalogEntry) => json<T.CatalogEntry>('PUT', `/api/catalog/${part(name)}`, entry)
export const removeServer = (name: string) => json<void>('DELETE', `/api/catalog/${part(name)}`)
export const cloneServer = (name: string, as: string) => post<T.CatalogEntry>(`/api/catalog/${part(name)}/clone`, { as })
export const clients = () => get<{ clients: T.FoundClient[] }>('/api/clients')
/** From a file that `clients` found, or from the text of an `mcpServers` file. */
export const importServers = (from: { path: string } | { text: string }, names?: string[]) =>
  post<{ added: string[]; renamed: Record<string, string>; skipped: { name: string; reason: string }[] }>('/api/catalog/import', { ...from, ...(names ? { names } : {}) })
/** Without secrets: `variables` says which stand for them. */
export const exportServers = () => get<{ document: T.JsonObject; variables: Record<string, string> }>('/api/catalog/export')

export const sessions = () => get<{ sessions: T.SessionFacts[]; /** what is wrong with keeping them */ notice: string | null }>('/api/sessions')
export const saveSession = (name: string) => post<T.SessionFacts>('/api/sessions/save', { name })
export const sessionExportUrl = (id: string) => own(`/api/sessions/${part(id)}/export`)
export const importSession = (text: string, name = '') =>
  post<{ id: string | null; records: number; passed_over: number; problems: string[]; notice: string | null }>('/api/sessions/import', { text, name })
export const renameSession = (id: string, name: string) => post<void>(`/api/sessions/${part(id)}/rename`, { name })
export const compareSessions = (a: string, b: string) => post<T.Comparison & T.JsonObject>('/api/sessions/compare', { a, b })
export const removeSession = (id: string) => json<void>('DELETE', `/api/sessions/${part(id)}`)

/** The tour of `tidings demo`; a step is seen when its effect was, which the tour tells then. */
export const tour = () => get<T.TourFacts>('/api/tour')
export const doStep = (name: string) => post<void>(`/api/tour/${part(name)}`)

export const saved = () => exactly<{ saved: T.SavedCall[] }>('/api/saved')
export const saveCall = (call: Omit<T.SavedCall, 'id'>) => post<T.SavedCall>('/api/saved', call)
export const removeSaved = (id: string) => json<void>('DELETE', `/api/saved/${part(id)}`)

export const snippet = (server: string, kind: T.SavedCall['kind'], as: T.SnippetAs, data: T.JsonObject) =>
  post<{ text: string }>('/api/snippet', { server, kind, as, ...data })
/** The page about an error code, as markdown. */
export const helpCodes = () => get<{ codes: string[] }>('/api/help')
export const help = (code: string) => get<{ text: string }>(`/api/help/${part(code)}`)
