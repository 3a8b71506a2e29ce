/**
 * Where one is, in the address: `#/server/screen/item`, or `#/~/screen/item` for what belongs to no server.
 *
 * Everything that can be looked at has such an address. `item` is one text, whatever it contains (a URI, a name, an id).
 */
export const SERVER_SCREENS = ['live', 'overview', 'tools', 'resources', 'prompts', 'requests', 'messages', 'logs'] as const
export const GENERAL_SCREENS = ['servers', 'sessions', 'settings', 'help'] as const
export type ServerScreen = (typeof SERVER_SCREENS)[number]
export type GeneralScreen = (typeof GENERAL_SCREENS)[number]
export type Screen = ServerScreen | GeneralScreen

export interface Route { server: string | null; screen: Screen; item: string | null; query: URLSearchParams }

const encode = (text: string) => encodeURIComponent(text).replaceAll('~', '%7E')
const decode = (text: string) => {
  try {
    return decodeURIComponent(text)
  } catch {
    return text // typed by hand
  }
}

/** The address of a screen: for `href`, or to go to. `query` is for what a screen wants to keep in the address. */
export function link(server: string | null, screen: Screen, item?: string | null, query?: Record<string, string>): string {
  const search = query && Object.keys(query).length ? `?${new URLSearchParams(query)}` : ''
  return `#/${server === null ? '~' : encode(server)}/${screen}${item ? `/${encode(item)}` : ''}${search}`
}

export function parse(hash: string): Route {
  const [path = '', search = ''] = hash.replace(/^#\/?/, '').split('?', 2)
  const [server = '', screen = '', ...rest] = path.split('/')
  const item = rest.length ? decode(rest.join('/')) : null
  const query = new URLSearchParams(search)
  if (server && server !== '~') {
    const known = (SERVER_SCREENS as readonly string[]).includes(screen)
    return { server: decode(server), screen: known ? (screen as ServerScreen) : 'live', item, query }
  }
  const known = (GENERAL_SCREENS as readonly string[]).includes(screen)
  return { server: null, screen: known ? (screen as GeneralScreen) : 'servers', item, query }
}

class Router {
  route = $state.raw<Route>(parse(location.hash))
  constructor() {
    addEventListener('hashchange', () => (this.route = parse(location.hash)))
  }
  go(to: string, replace = false): void {
    if (replace) history.replaceState(null, '', to)
    else history.pushState(null, '', to)
    this.route = parse(to)
  }
}
export const router = new Router()
export const go = (server: string | null, screen: Screen, item?: string | null, query?: Record<string, string>) =>
  router.go(link(server, screen, item, query))
