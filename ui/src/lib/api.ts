/** The inspector's HTTP API, typed. Each function is one endpoint; failures are thrown as `ApiError`. */
import { isExactNumber, parseJson } from './exact-json'
import { visible } from './text-lines'
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

/** The facts of a failed API request; null for any other exception. */
export const errorFacts = (failure: unknown): T.ErrorFacts | null => (failure instanceof ApiError ? failure.facts : null)

const unreachable: T.ErrorFacts = {
  code: 'inspector-gone', category: 'connection', who: 'this program', help_page: '',
  message: 'The inspector is not responding.', cure: 'Check the terminal where `tidings inspect` runs, or start it again.',
}

/**
 * The key that the page sends along with its cookie. Browsers send a cookie to every port of a machine; local storage
 * belongs to our own port alone.
 */
export const KEY = 'tidings.key'
let key = ''
try {
  key = localStorage.getItem(KEY) ?? ''
} catch { /* no storage: the key lasts until the page is closed */ }
/** The id of the kept session that the page shows; empty: the running one. */
let kept = ''
export const showSession = (id: string) => { kept = id }
/** An address that the browser fetches by itself. It sends no header, so the key is part of the address. */
const withKey = (path: string) => `${path}${path.includes('?') ? '&' : '?'}key=${key}${kept ? `&session=${kept}` : ''}`

/** A segment of a path. Browsers resolve `.` and `..` even when encoded; the %00 after them prevents that. */
const segment = (text: string) => (/^\.{1,2}$/.test(text) ? `${text}%00` : encodeURIComponent(text))
const query = (values: Record<string, string | number | undefined>): string => {
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(values)) if (value !== undefined) search.set(name, String(value))
  const text = search.toString()
  return text ? `?${text}` : ''
}

async function send(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<Response> {
  const init: RequestInit = { method, credentials: 'same-origin', cache: 'no-store' }
  if (signal) init.signal = signal
  init.headers = { 'X-Tidings': key || '1', ...(kept ? { 'X-Tidings-Session': kept } : {}) }
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
  if (!response.ok) throw new ApiError(response.status, await errorIn(response))
  return response
}

async function errorIn(response: Response): Promise<T.ErrorFacts> {
  try {
    const { error } = (await response.json()) as { error: T.ErrorFacts }
    if (error?.message) return error
  } catch { /* not JSON: report the status */ }
  const message = response.status === 401 ? 'This page is not authorized, or no longer.' : `The inspector answered ${response.status}.`
  return { ...unreachable, code: `http-${response.status}`, message, cure: 'Open the address that `tidings inspect` printed.' }
}

async function json<R>(method: string, path: string, body?: unknown, signal?: AbortSignal, read: (text: string) => unknown = JSON.parse): Promise<R> {
  const response = await send(method, path, body, signal)
  return (response.status === 204 ? undefined : read(await response.text())) as R
}
const get = <R>(path: string, signal?: AbortSignal) => json<R>('GET', path, undefined, signal)
const post = <R>(path: string, body?: unknown, signal?: AbortSignal) => json<R>('POST', path, body, signal)
/** For values that are shown or sent as JSON: numbers keep all their digits (see `exact-json`). */
const exact = <R>(path: string, body?: unknown) => json<R>(body === undefined ? 'GET' : 'POST', path, body, undefined, parseJson)
/** The same, with words that are only shown, and never sent, made harmless. */
function readable<R>(value: R): R {
  if (Array.isArray(value)) return value.map(readable) as R
  if (value === null || typeof value !== 'object' || isExactNumber(value)) return value
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, typeof each === 'string' ? (/^(title|description|label|reason)$/.test(key) ? visible(each) : each) : readable(each)])) as R
}
const pathOf = (server: string, rest: string) => `/api/servers/${segment(server)}/${rest}`

/** Exchanges the token for a cookie and its key. */
export async function exchangeToken(token: string): Promise<void> {
  key = (await post<{ key: string }>('/api/enter', { token })).key
  try {
    localStorage.setItem(KEY, key)
  } catch { /* see above */ }
}
/** The token of a link that opens the page in another browser, once. */
export const newLink = () => post<{ token: string }>('/api/link')
export const streamUrl = (after: number) => withKey(`/api/stream?after=${after}`)
export const hello = () => get<T.Hello>('/api/hello')
export const snapshot = () => get<T.Snapshot>('/api/snapshot')
export const rows = (after = 0, limit = 20_000) => get<T.Rows>(`/api/rows${query({ after, limit })}`)
export const record = (seq: number) => exact<T.RecordFacts>(`/api/record/${seq}`)

interface Items { tools: T.Tool; resources: T.Resource; templates: T.Template; prompts: T.Prompt }
export const list = <L extends T.ListName>(server: string, name: L) => exact<T.ListItems<Items[L]>>(pathOf(server, `list/${name}`)).then(readable)
export const request = (server: string, id: string) => exact<T.RequestFacts>(pathOf(server, `requests/${segment(id)}`))
export const content = (server: string, uri: string, version?: number) => exact<T.Content>(pathOf(server, `content${query({ uri, version })}`))
export const versions = (server: string, uri: string) => get<{ versions: T.VersionFacts[] }>(pathOf(server, `versions${query({ uri })}`))
export const diff = (server: string, uri: string, from: number, to: number) => get<T.Diff>(pathOf(server, `diff${query({ uri, from, to })}`))
/** The address of a content's bytes, for `<img src>` and `<iframe sandbox="" src>`, which run no scripts. */
export const blobUrl = (server: string, uri: string, version: number, index = 0) => withKey(pathOf(server, `blob${query({ uri, version, index })}`))
/** The same for a content in the result of a request. */
export const resultUrl = (server: string, request: string, index = 0) => withKey(pathOf(server, `blob${query({ request, index })}`))

/** How often a text occurs in the bodies of messages, by the row. */
export const searchMessages = (server: string, text: string) => get<{ hits: Record<string, number>; searched: number }>(pathOf(server, `search${query({ text })}`))

type Started = { id: string }
export const connect = (server: string) => post<void>(pathOf(server, 'connect'))
export const disconnect = (server: string) => post<void>(pathOf(server, 'disconnect'))
export const reconnect = (server: string) => post<void>(pathOf(server, 'reconnect'))
/** Starts the call. A `request` row with this id reports its end; then fetch `request(server, id)`. */
export const call = (server: string, tool: string, args: T.JsonObject, meta: T.JsonObject = {}) =>
  post<Started>(pathOf(server, 'call'), { tool, arguments: args, meta })
export const read = (server: string, uri: string) => post<Started>(pathOf(server, 'read'), { uri })
export const prompt = (server: string, name: string, args: Record<string, string>) => post<Started>(pathOf(server, 'prompt'), { name, arguments: args })
export const replay = (server: string, method: string, params: T.JsonObject) => post<Started>(pathOf(server, 'request'), { method, params })
/** Sends a request and waits for its result. Throws its error. */
export async function ask<R>(server: string, method: string, params: T.JsonObject = {}): Promise<R> {
  const { id } = await replay(server, method, params)
  for (let ms = 20; ; ms = Math.min(400, ms * 2)) {
    const found = await request(server, id)
    if (found.error) throw new ApiError(502, found.error)
    if (found.ended !== null) return found.result as R
    await new Promise((done) => setTimeout(done, ms))
  }
}
/** Follows a task to its end. A `request` row with this id reports it, as for a call. */
export const followTask = (server: string, task: string) => post<Started>(pathOf(server, 'task'), { id: task })
export const cancel = (server: string, id: string) => post<{ cancelled: boolean }>(pathOf(server, 'cancel'), { id })
/** The resource of a bridge with the servers behind it. */
export const BRIDGE_STATUS = 'bridge://status'
export const subscribe = (server: string, uri: string) => post<void>(pathOf(server, 'subscribe'), { uri })
export const unsubscribe = (server: string, uri: string) => post<void>(pathOf(server, 'unsubscribe'), { uri })
export type CompletionRef = { type: 'ref/prompt'; name: string } | { type: 'ref/resource'; uri: string }
export const complete = (server: string, ref: CompletionRef, argument: { name: string; value: string }, context: Record<string, string> = {}) =>
  post<{ values: string[] }>(pathOf(server, 'complete'), { ref, argument, context })
export const setLogLevel = (server: string, level: string) => post<void>(pathOf(server, 'log-level'), { level })
/** `result` is the result of the JSON-RPC response: sampling {role, content, model…}, elicitation {action, content}, roots {roots}. */
export const answer = (server: string, id: string, result: T.JsonObject) => post<void>(pathOf(server, 'answer'), { id, result })
/** What answers the questions of a server without a person: rules, and the folders that it may use. */
export const rules = (server: string) => get<{ rules: T.Json[]; roots: string[] }>(pathOf(server, 'rules'))
export const setRules = (server: string, rules: T.Json) => post<void>(pathOf(server, 'rules'), { rules })
/** The text that a model writes for a sampling question. It is not sent to the server. */
export const askModel = (server: string, id: string, model: { address: string; model: string; key_variable: string }) => post<{ text: string; model: string }>(pathOf(server, 'model'), { id, ...model })
/** `decline` rejects an elicitation; `dismiss` closes it without a choice. */
export const refuse = (server: string, id: string, reason = '', how: 'refuse' | 'decline' | 'dismiss' = 'refuse') =>
  post<void>(pathOf(server, 'refuse'), { id, reason, how })

export const signInFacts = (server: string) => get<T.SignInFacts>(pathOf(server, 'sign-in'))
export const signIn = (server: string, options: { account?: string; client_id?: string; client_secret?: string } = {}) => post<void>(pathOf(server, 'sign-in'), options)
/** Takes the address to which the browser was sent, if it could not come back by itself. */
export const finishSignIn = (server: string, address: string) => post<void>(pathOf(server, 'sign-in/finish'), { address })
export const stopSignIn = (server: string) => post<void>(pathOf(server, 'sign-in/stop'))
export const useAccount = (server: string, account: string) => post<void>(pathOf(server, 'accounts'), { account })
export const signOut = (server: string, account: string) => post<{ revoked: boolean }>(pathOf(server, 'sign-out'), { account })

export const form = (schema: T.Json) => exact<{ field: T.Field; initial: T.Json }>('/api/form', { schema })
export const toolForm = (server: string, tool: string) => exact<{ field: T.Field; initial: T.Json }>(pathOf(server, `tools/${segment(tool)}/form`)).then((made) => ({ ...made, field: readable(made.field) }))
/** Validates a value against its schema. */
export const check = (schema: T.Json, value: T.Json) => post<{ problems: T.Problem[] }>('/api/check', { schema, value })

export const catalog = () => get<T.Catalog>('/api/catalog')
/** Adds an entry, or a target as typed (a URL, a command, file.json#name), and connects to it. */
export const addServer = (entry: T.CatalogEntry | { target: string; name?: string }) => post<T.CatalogEntry>('/api/catalog', entry)
export const changeServer = (name: string, entry: T.CatalogEntry) => json<T.CatalogEntry>('PUT', `/api/catalog/${segment(name)}`, entry)
export const removeServer = (name: string) => json<void>('DELETE', `/api/catalog/${segment(name)}`)
export const cloneServer = (name: string, as: string) => post<T.CatalogEntry>(`/api/catalog/${segment(name)}/clone`, { as })
export const clients = () => get<{ clients: T.FoundClient[] }>('/api/clients')
/** Imports from a file that `clients` found, or from the text of an `mcpServers` file. */
export const importServers = (from: { path: string } | { text: string }, names?: string[]) =>
  post<{ added: string[]; skipped: { name: string; reason: string }[] }>('/api/catalog/import', { ...from, ...(names ? { names } : {}) })
/** Exports with secrets masked. */
export const exportServers = () => get<{ document: T.JsonObject }>('/api/catalog/export')

export const sessions = () => get<{ sessions: T.SessionFacts[]; /** why sessions cannot be saved, if so */ notice: string | null }>('/api/sessions')
export const saveSession = (name: string) => post<T.SessionFacts>('/api/sessions/save', { name })
export const sessionExportUrl = (id: string) => withKey(`/api/sessions/${segment(id)}/export`)
export const importSession = (text: string, name = '') =>
  post<{ id: string | null; records: number; passed_over: number; problems: string[]; notice: string | null }>('/api/sessions/import', { text, name })
export const compareSessions = (a: string, b: string) => post<T.Comparison & T.JsonObject>('/api/sessions/compare', { a, b })
/** Opens a session for the screens as it was after a record, or at its end. `moments`: [seq, time], to look back to. */
export const openSession = (id: string, seq?: number) => post<{ moments: [number, number][]; records: number }>(`/api/sessions/${segment(id)}/open`, seq === undefined ? {} : { seq })
/** Pytest files that send the requests of a session again, by name. */
export const sessionTest = (id: string) => post<{ files: Record<string, string> }>(`/api/sessions/${segment(id)}/test`)
export const removeSession = (id: string) => json<void>('DELETE', `/api/sessions/${segment(id)}`)

/** The tour of `tidings demo`. */
export const tour = () => get<T.TourFacts>('/api/tour')
export const doStep = (name: string) => post<void>(`/api/tour/${segment(name)}`)

export const saved = () => exact<{ saved: T.SavedCall[] }>('/api/saved')
export const saveCall = (call: Omit<T.SavedCall, 'id'>) => post<T.SavedCall>('/api/saved', call)

export const snippet = (server: string, kind: T.SavedCall['kind'], as: T.SnippetAs, data: T.JsonObject) =>
  post<{ text: string }>('/api/snippet', { server, kind, as, ...data })
export const helpCodes = () => get<{ codes: string[] }>('/api/help')
/** The help page of an error code, as Markdown. */
export const help = (code: string) => get<{ text: string }>(`/api/help/${segment(code)}`)
