/** Resources as a tree by the parts of their URIs, flattened to the rows that are to be seen. */
import { decodeUri } from './changes'

export type TreeRow = { kind: 'item'; key: string; words: string; depth: number } | { kind: 'folder'; key: string; words: string; depth: number; count: number }

interface Node { folders: Map<string, Node>; items: { uri: string; words: string }[]; count: number }
const empty = (): Node => ({ folders: new Map(), items: [], count: 0 })

/** The first level is open from the beginning; what is written down is that it was closed. */
export const toggleMark = (leaf: { key: string; depth: number }) => (leaf.depth ? leaf.key : `!${leaf.key}`)
export const isOpen = (leaf: { key: string; depth: number }, open: ReadonlySet<string>) => (leaf.depth ? open.has(leaf.key) : !open.has(`!${leaf.key}`))

const stepsOf = (uri: string) => {
  const match = /^([a-z][a-z0-9+.-]*:\/{0,3})(.*)$/i.exec(decodeUri(uri))
  return [match?.[1] ?? '', ...(match?.[2] ?? uri).split('/')]
}
/** The keys of the folders that a resource is in. */
export const foldersOf = (uri: string) => {
  let path = ''
  return stepsOf(uri).slice(0, -1).map((step) => (path += `${step}/`))
}

/** `open` has the marks of the folders that are not as at the beginning; with `all`, each is open. A folder that holds one thing alone is not shown. */
export function buildTree(items: { uri: string; words: string }[], open: ReadonlySet<string>, all: boolean): TreeRow[] {
  const root = empty()
  for (const item of items) {
    const steps = stepsOf(item.uri)
    let node = root
    node.count++
    for (const step of steps.slice(0, -1)) {
      let below = node.folders.get(step)
      if (!below) node.folders.set(step, (below = empty()))
      node = below
      node.count++
    }
    node.items.push({ uri: item.uri, words: steps.at(-1) || item.words })
  }
  const rows: TreeRow[] = []
  const walk = (node: Node, path: string, depth: number) => {
    for (const [name, first] of node.folders) {
      let [below, words, key] = [first, name, `${path}${name}/`]
      while (below.folders.size === 1 && !below.items.length) {
        const [[next, inner]] = [...below.folders] as [[string, Node]]
        words += words.endsWith('/') || words.endsWith(':') ? next : `/${next}`
        key += `${next}/`
        below = inner
      }
      if (below.count === 1 && below.items[0]) {
        rows.push({ kind: 'item', key: below.items[0].uri, words: `${words}${words.endsWith('/') || words.endsWith(':') ? '' : '/'}${below.items[0].words}`, depth })
        continue
      }
      rows.push({ kind: 'folder', key, words, depth, count: below.count })
      if (all || isOpen({ key, depth }, open)) walk(below, key, depth + 1)
    }
    for (const { uri, words } of node.items) rows.push({ kind: 'item', key: uri, words, depth })
  }
  walk(root, '', 0)
  return rows
}
