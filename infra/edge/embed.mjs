// Puts the function into its template, which can't name a file:
// `node infra/edge/embed.mjs`. A test fails if the two differ.
import { readFileSync, writeFileSync } from 'node:fs';

const TEMPLATE = new URL('../edge.yaml', import.meta.url);
const INDENT = ' '.repeat(8);

const code = readFileSync(new URL('./function.js', import.meta.url), 'utf8')
  .replace(/^(?=.)/gm, INDENT);
const template = readFileSync(TEMPLATE, 'utf8');
const block = /(\n {6}FunctionCode: \|\n)(?:(?: {8}.*)?\n)*?(?=\n {2}\S)/;
if (!block.test(template)) throw new Error('the template has no place for the function');
writeFileSync(TEMPLATE, template.replace(block, (_, head) => head + code));
