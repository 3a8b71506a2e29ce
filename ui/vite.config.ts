import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'
import { svelte } from '@sveltejs/vite-plugin-svelte'
import { defineConfig, type Plugin } from 'vite'

const out = fileURLToPath(new URL('../src/tidings/inspector/static', import.meta.url))

/** Writes a compressed copy beside each file, so that the server compresses nothing when it starts. */
function compressed(): Plugin {
  return {
    name: 'compressed',
    apply: 'build',
    closeBundle() {
      for (const entry of readdirSync(out, { recursive: true, withFileTypes: true })) {
        if (!entry.isFile() || !/\.(js|css|html|svg)$/.test(entry.name)) continue
        const path = join(entry.parentPath, entry.name)
        const bytes = readFileSync(path)
        writeFileSync(`${path}.gz`, gzipSync(bytes, { level: 9 }))
        writeFileSync(`${path}.br`, brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }))
      }
    },
  }
}

export default defineConfig({
  plugins: [svelte(), compressed()],
  resolve: { alias: { $lib: fileURLToPath(new URL('./src/lib', import.meta.url)) } },
  build: {
    outDir: out,
    emptyOutDir: true,
    manifest: 'manifest.json',
    // Browsers of 2024 and later: no code is transformed for older ones.
    target: ['chrome123', 'firefox121', 'safari17.5'],
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0, // the page's content security policy allows nothing inline
    reportCompressedSize: false,
    // What nearly every screen needs is one file: many small ones are larger together.
    rolldownOptions: { output: { codeSplitting: { groups: [{ name: 'base', test: /src\/lib\/(api|exact-json|format|keys|preferences|refetch|requests|router|row-log|server-list|store|stream)|components\/(Copy|ErrorNote|FilterInput|Splitter|Virtual)/ }] } } },
  },
})
