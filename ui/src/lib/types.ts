/** The types of the inspector's HTTP API. Times (`at`) are seconds since 1970, durations (`ms`) milliseconds. */
import type { Row } from './rows'
export type * from './rows'

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json }
export type JsonObject = { [key: string]: Json }

export type State = 'disconnected' | 'connecting' | 'connected' | 'disconnecting' | 'error'
export type Transport = 'stdio' | 'http' | 'sse' | 'memory'
export type ListName = 'tools' | 'resources' | 'templates' | 'prompts'
export type ChangeKind = 'resource-updated' | 'tools-list-changed' | 'resources-list-changed' | 'prompts-list-changed'

export interface ErrorFacts {
  code: string
  category: string
  /** the cause: "you", "the network", "the server", "this program" */
  who: string
  message: string
  cure: string
  help_page: string
  payload?: Json
}

export interface Count { total: number; kept: number; dropped: number }
export interface ListFacts { total: number; malformed: number; duplicates: number; at: number | null; error: ErrorFacts | null }
export interface SubscriptionFacts {
  uri: string
  since: number | null
  updates: number
  last_update: number | null
  /** the resource that was updated last: for a prefix (`…*`) one of many */
  last_uri: string | null
  last_read: number | null
  /** updated, but not read since */
  stale: boolean
  merged: number
  versions: VersionFacts[]
  error: ErrorFacts | null
}
/** A complete change: the times of its hops and, for a list, its differences. */
export interface ChangeData {
  times: { source?: number; published?: number; received?: number; read?: number }
  items: { added: string[]; removed: string[]; changed: string[]; more: number } | null
}
/** A content that was read: `version` identifies it in `content`, `diff` and `blob`. */
export interface VersionFacts { version: number; at: number; hash: string; size: number; cut: boolean }
export interface QuestionFacts {
  id: string
  kind: 'sampling' | 'elicitation' | 'roots' | string
  params: JsonObject
  /** the question as text */
  message: string
  /** the id of the request that led to the question */
  request: string | null
  at: number
  deadline: number | null
}
/** [second, updated, resources, tools, prompts]: the number of changes in that second. Empty seconds are left out. */
export type PaceSecond = [number, number, number, number, number]

export interface ServerFacts {
  name: string
  target: string
  /** the catalog's entry, without its secrets */
  entry: JsonObject | null
  state: State
  words: string
  error: ErrorFacts | null
  tries: number
  next_retry: number | null
  last_answer_at: number | null
  last_answer_ms: number | null
  transport: Transport | null
  era: 'legacy' | 'modern' | null
  protocol_version: string | null
  server_info: { name: string; version: string; title?: string } | null
  capabilities: JsonObject
  instructions: string | null
  pid: number | null
  log_level: string | null
  connected_at: number | null
  was_connected: boolean
  /** records that could not be kept */
  missed: number
  queued: number
  running: number
  /** tasks at the server whose outcome is not known yet */
  tasks: number
  lists: Record<ListName, ListFacts>
  counts: Record<string, Count>
  /** the messages: bytes that they take, the most that is kept, and since when no body was cut */
  history: { bytes: number; limit: number; whole: number | null }
  subscriptions: Record<string, SubscriptionFacts>
  questions: Record<string, QuestionFacts>
  pace: PaceSecond[]
}
/** The changed facts of a server. `subscriptions` has only the changed ones, unless `all_subscriptions` is set. */
export type FactsDelta = Partial<ServerFacts> & { all_subscriptions?: boolean }

export interface Hello {
  version: string
  seq: number
  ready: boolean
  now: number
  catalog: { path: string | null; read_only: boolean }
  /** true for `tidings demo` */
  tour: boolean
  /** the reason why the inspector itself could not start */
  error: ErrorFacts | null
}
export interface Snapshot { seq: number; now: number; servers: ServerFacts[] }

export interface Rows { rows: Row[]; to: number; more: boolean }
export interface Batch {
  to: number
  now: number
  rows: Row[]
  /** null if the server was removed */
  facts: Record<string, FactsDelta | null>
  /** the number of rows left out because the page was slow; `rows` can still fetch them */
  held: number
  /** the parts that changed: fetch them again if they are shown */
  stale?: ('saved' | 'catalog' | 'sessions' | 'tour' | 'sign-in')[]
}

/** A record of the session; `data` depends on the kind. */
export interface RecordFacts { seq: number; at: number; server: string; kind: string; data: JsonObject }

export interface ListItems<T = JsonObject> {
  items: T[]
  malformed: { item: Json; reason: string }[]
  duplicates: string[]
}
export interface Tool {
  name: string
  title?: string
  description?: string
  inputSchema: JsonObject
  outputSchema?: JsonObject
  execution?: { taskSupport?: 'forbidden' | 'optional' | 'required' }
  annotations?: { title?: string; readOnlyHint?: boolean; destructiveHint?: boolean; idempotentHint?: boolean; openWorldHint?: boolean }
  [key: string]: unknown
}
export interface Resource { uri: string; name: string; title?: string; description?: string; mimeType?: string; size?: number; [key: string]: unknown }
export interface Template { uriTemplate: string; name: string; title?: string; description?: string; mimeType?: string; [key: string]: unknown }
export interface PromptArgument { name: string; title?: string; description?: string; required?: boolean }
export interface Prompt { name: string; title?: string; description?: string; arguments?: PromptArgument[]; [key: string]: unknown }

export interface RequestFacts {
  id: string
  method: string
  title: string
  params: JsonObject
  seq: number
  /** true if the client sent it by itself */
  aside: boolean
  status: 'pending' | 'in_progress' | 'completed' | 'cancelled' | 'error' | string
  created: number | null
  started: number | null
  ended: number | null
  ms: number | null
  attempts: number
  result: Json
  result_size: number
  error: ErrorFacts | null
  progress: { progress: number; total: number | null; message: string | null } | null
  /** the status; that of its task while it runs, and `left` if the task goes on and nobody follows it */
  state: string
  task: TaskFacts | null
  /** where a tool's structured content violates its output schema */
  problems: Problem[]
}

/** A task at the server: what a tool call has become. Durations are in seconds. */
export interface TaskFacts {
  id: string
  status: 'working' | 'input_required' | 'completed' | 'failed' | 'cancelled' | null
  message: string | null
  created_at: number | null
  updated_at: number | null
  /** how long the server keeps it after its creation; null: no limit */
  ttl: number | null
  ends: number | null
  poll_interval: number | null
  /** the server announces its changes; otherwise it is polled */
  listening: boolean
  /** its outcome is not known, and can still be asked for */
  pending: boolean
}

/** One step of a sign-in, with secrets masked. Its status is null while it waits for the person. */
export interface SignInStep { name: string; words: string; status: number | null; ms: number; method: string; url: string; request: Json; answer: Json }
export interface Account { name: string; signed_in: number; expires: number | null; scope: string; issuer: string; wanted: string; renewable: boolean; in_keychain: boolean; current: boolean }
export interface SignInFacts { running: boolean; address: string; steps: SignInStep[]; error: ErrorFacts | null; accounts: Account[] }

/** A part of a content. Its bytes are fetched from `blobUrl`. */
export interface ContentPart { uri: string; mimeType?: string; text?: string; blob?: string; size: number; cut?: boolean; binary: boolean; index: number }
export interface Content { uri: string; version: number; at: number; hash: string; size: number; contents: ContentPart[] }

export interface DiffWord { text: string; changed: boolean }
export interface DiffLine { mark: ' ' | '+' | '-'; old: number | null; new: number | null; words: DiffWord[] }
export interface DiffHunk { title: string; lines: DiffLine[] }
export interface Diff { hunks: DiffHunk[]; added: number; removed: number; cut: boolean; note: string | null; words: string }

/** A form field, made from any JSON Schema by `tidings.inspector.forms`. Empty values are left out. */
export interface Field {
  kind: 'text' | 'multiline' | 'number' | 'integer' | 'boolean' | 'enum' | 'multi' | 'object' | 'array' | 'choice' | 'const' | 'ref' | 'json'
  name?: string
  label?: string
  title?: string
  description?: string
  required?: boolean
  nullable?: boolean
  secret?: boolean
  deprecated?: boolean
  has_default?: boolean
  default?: Json
  examples?: Json[]
  format?: string
  hints?: string[]
  notes?: string[]
  options?: { value: Json; label: string; description?: string }[]
  fields?: Field[]
  items?: Field
  extra?: Field
  closed?: boolean
  value?: Json
  ref?: string
  reason?: string
  definitions?: Record<string, Field>
}
/** A validation problem: its place, for programs (`path`) and for people (`place`), and its cause (`fault`). */
export interface Problem { path: (string | number)[]; place?: string; message: string; fault?: 'value' | 'schema' }

/** An entry as in its file (command, args, env, cwd | url, headers; tidings: {era, timeouts, logLevel, autoConnect, roots}), secrets as ***. */
export interface CatalogEntry { name: string; target?: string; [key: string]: Json | undefined }
export interface Catalog { path: string | null; read_only: boolean; entries: CatalogEntry[]; problems: string[] }
export interface FoundClient { client: string; path: string; project: string | null; servers: string[]; problem: string | null }
export interface SessionFacts { id: string; name: string | null; began: number; last: number; ended: number | null; running: boolean; records: number; bytes: number; servers: string[]; current: boolean }
export interface SavedCall { id: string; name: string; server: string; kind: 'call' | 'read' | 'prompt' | 'request'; data: JsonObject }
export type SnippetAs = 'curl' | 'python' | 'json'

/** A tour: steps that the inspector performs. A step is seen when the inspector has recorded its effect. */
export interface TourFacts {
  steps: TourStep[]
  last: { title: string; words: string; snippets: { title: string; text: string }[] }
}
export interface TourStep {
  name: string
  title: string
  words: string
  action: string
  place: string
  is_path: boolean
  /** true when the server of the step is available */
  ready: boolean
  server: string
  screen: 'live' | 'tasks'
  status: 'ready' | 'doing' | 'seen' | 'late'
  seen: { at: number; words: string; hops: { words: string; ms: number | null }[]; server: string; screen: 'live' | 'tasks' | 'resources'; item: string | null } | null
}

export type Difference = 'same' | 'differs' | 'slower' | 'only_old' | 'only_new'
/** A request of both sessions, or of one. `words`: what is different, if it can be said in a word. */
export interface ComparedRequest {
  method: string
  title: string
  difference: Difference
  words?: string
  diff?: Diff
  old: { status: string; took: number | null; params: JsonObject } | null
  new: { status: string; took: number | null; params: JsonObject } | null
}
/** A comparison of two sessions. Pairs are [old, new]. */
export interface Comparison { servers: ServerComparison[]; only_old: string[]; only_new: string[] }
export interface ServerComparison {
  name: string
  same: boolean
  facts: Record<string, [Json, Json]>
  lists: Record<string, { added: string[]; removed: string[]; changed: { name: string; diff: Diff }[]; changed_total: number }>
  requests: ComparedRequest[]
  counts: Partial<Record<Difference | 'all', number>>
  changes: Record<string, [number, number]>
  errors: Record<string, [number, number]>
}
