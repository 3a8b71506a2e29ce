/** Resources as a tree by the segments of their URIs, flattened to the visible rows. */
import { decodeUri } from './changes'

export type TreeRow = { kind: 'item'; key: string; label: string; depth: number } | { kind: 'folder'; key: string; label: string; depth: number; count: number }

interface Node { folders: Map<string, Node>; items: { uri: string; label: string }[]; count: number }
const empty = (): Node => ({ folders: new Map(), items: [], count: 0 })

/** The key that marks a folder as toggled. The first level is open at first, so its mark means closed. */
export const toggleMark = (row: { key: string; depth: number }) => (row.depth ? row.key : `!${row.key}`)
export const isOpen = (row: { key: string; depth: number }, open: ReadonlySet<string>) => (row.depth ? open.has(row.key) : !open.has(`!${row.key}`))

const stepsOf = (uri: string) => {
  const match = /^([a-z][a-z0-9+.-]*:\/{0,3})(.*)$/i.exec(decodeUri(uri))
  return [match?.[1] ?? '', ...(match?.[2] ?? uri).split('/')]
}
/** The keys of the folders that contain a resource. */
export const foldersOf = (uri: string) => {
  let path = ''
  return stepsOf(uri).slice(0, -1).map((step) => (path += `${step}/`))
}

/** Builds the rows. `open` has the marks of toggled folders; with `all`, every folder is open. Folders with a single item are left out. */
export function buildTree(items: { uri: string; label: string }[], open: ReadonlySet<string>, all: boolean): TreeRow[] {
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
    node.items.push({ uri: item.uri, label: steps.at(-1) || item.label })
  }
  const rows: TreeRow[] = []
  const walk = (node: Node, path: string, depth: number) => {
    for (const [name, first] of node.folders) {
      let [below, label, key] = [first, name, `${path}${name}/`]
      while (below.folders.size === 1 && !below.items.length) {
        const [[next, inner]] = [...below.folders] as [[string, Node]]
        label += label.endsWith('/') || label.endsWith(':') ? next : `/${next}`
        key += `${next}/`
        below = inner
      }
      if (below.count === 1 && below.items[0]) {
        rows.push({ kind: 'item', key: below.items[0].uri, label: `${label}${label.endsWith('/') || label.endsWith(':') ? '' : '/'}${below.items[0].label}`, depth })
        continue
      }
      rows.push({ kind: 'folder', key, label, depth, count: below.count })
      if (all || isOpen({ key, depth }, open)) walk(below, key, depth + 1)
    }
    for (const { uri, label } of node.items) rows.push({ kind: 'item', key: uri, label, depth })
  }
  walk(root, '', 0)
  return rows
}
