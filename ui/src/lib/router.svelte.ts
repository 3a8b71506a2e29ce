/**
 * The current screen, as part of the address: `#/server/screen/item`, or `#/~/screen/item` for screens without a server.
 *
 * Everything that can be shown has such an address. `item` is one encoded text: a URI, a name or an id.
 */
import type { SavedCall } from './types'

export const SERVER_SCREENS = ['live', 'overview', 'tools', 'resources', 'prompts', 'tasks', 'messages', 'logs'] as const
export const GENERAL_SCREENS = ['live', 'servers', 'sessions', 'settings', 'help'] as const
export type ServerScreen = (typeof SERVER_SCREENS)[number]
export type GeneralScreen = (typeof GENERAL_SCREENS)[number]
export type Screen = ServerScreen | GeneralScreen

/** `landing`: the address names no screen, so the page chooses one when it knows the state of the server. */
export interface Route { server: string | null; screen: Screen; item: string | null; query: URLSearchParams; landing?: boolean }

const encode = (text: string) => encodeURIComponent(text).replaceAll('~', '%7E')
const decode = (text: string) => {
  try {
    return decodeURIComponent(text)
  } catch {
    return text // typed by hand
  }
}

/** The address of a server; the page chooses the screen. */
export const home = (server: string) => `#/${encode(server)}`

/** The address of a screen. `query` holds further state of the screen. */
export function link(server: string | null, screen: Screen, item?: string | null, query?: Record<string, string>): string {
  const search = query && Object.keys(query).length ? `?${new URLSearchParams(query)}` : ''
  return `#/${server === null ? '~' : encode(server)}/${screen}${item ? `/${encode(item)}` : ''}${search}`
}

function parseHash(hash: string): Route {
  const [path = '', search = ''] = hash.replace(/^#\/?/, '').split('?', 2)
  const [server = '', screen = '', ...rest] = path.split('/')
  const item = rest.length ? decode(rest.join('/')) : null
  const query = new URLSearchParams(search)
  if (server && server !== '~') {
    const known = (SERVER_SCREENS as readonly string[]).includes(screen)
    return { server: decode(server), screen: known ? (screen as ServerScreen) : 'overview', item, query, landing: !known }
  }
  const known = (GENERAL_SCREENS as readonly string[]).includes(screen)
  return { server: null, screen: known ? (screen as GeneralScreen) : 'servers', item, query }
}

class Router {
  route = $state.raw<Route>(parseHash(location.hash))
  constructor() {
    addEventListener('hashchange', () => (this.route = parseHash(location.hash)))
  }
  go(to: string, replace = false): void {
    if (replace) history.replaceState(null, '', to)
    else history.pushState(null, '', to)
    this.route = parseHash(to)
  }
}
export const router = new Router()
export const go = (server: string | null, screen: Screen, item?: string | null, query?: Record<string, string>, replace = false) =>
  router.go(link(server, screen, item, query), replace)

const SAVED_SCREENS = { call: 'tools', read: 'resources', prompt: 'prompts', request: 'messages' } as const
export const savedCallLink = (call: SavedCall) => link(call.server, SAVED_SCREENS[call.kind], null, { saved: call.id })
