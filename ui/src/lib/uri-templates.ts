/** URI templates (RFC 6570): their variables, and their expansion. */
const PART = /\{([+#./;?&]?)([^{}]+)\}/g

export function templateVariables(template: string): string[] {
  const names: string[] = []
  for (const [, , list] of template.matchAll(PART))
    for (const name of (list ?? '').split(',')) names.push(name.replace(/(\*|:\d+)$/, ''))
  return [...new Set(names)]
}

const STYLES: Record<string, { first: string; between: string; named: boolean; free: boolean }> = {
  '': { first: '', between: ',', named: false, free: false },
  '+': { first: '', between: ',', named: false, free: true },
  '#': { first: '#', between: ',', named: false, free: true },
  '.': { first: '.', between: '.', named: false, free: false },
  '/': { first: '/', between: '/', named: false, free: false },
  ';': { first: ';', between: ';', named: true, free: false },
  '?': { first: '?', between: '&', named: true, free: false },
  '&': { first: '&', between: '&', named: true, free: false },
}
const strict = (text: string) => encodeURIComponent(text).replace(/[!'()*]/g, (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`)

export function expandTemplate(template: string, values: Record<string, string>): string {
  return template.replace(PART, (_, operator: string, list: string) => {
    const style = STYLES[operator] ?? { first: '', between: ',', named: false, free: false }
    const parts = list.split(',').flatMap((spec) => {
      const name = spec.replace(/(\*|:\d+)$/, '')
      const most = /:(\d+)$/.exec(spec)?.[1]
      const value = values[name]
      if (value === undefined || value === '') return []
      const cut = most ? value.slice(0, Number(most)) : value
      const encoded = style.free ? encodeURI(cut).replaceAll('%25', '%') : strict(cut)
      return [style.named ? `${name}=${encoded}` : encoded]
    })
    return parts.length ? style.first + parts.join(style.between) : ''
  })
}
