// Screenshots in at most 256 colours: a third of the bytes, and what nobody sees is lost.
import { deflateSync, inflateSync } from 'node:zlib';

const MAGIC = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
const CRC = Array.from({ length: 256 }, (_, byte) => {
  let value = byte;
  for (let bit = 0; bit < 8; bit += 1) value = value & 1 ? 0xedb88320 ^ (value >>> 1) : value >>> 1;
  return value >>> 0;
});

/** The same picture with a palette. Colours that are close are one, as close as it takes; of these, the most frequent is kept. */
export function smaller(png) {
  const { width, height, pixels, size } = read(png);
  const colours = new Uint32Array(width * height);
  const counts = new Map();
  for (let at = 0; at < colours.length; at += 1) {
    const from = at * size;
    const colour = (pixels[from] << 16) | (pixels[from + 1] << 8) | pixels[from + 2];
    colours[at] = colour;
    counts.set(colour, (counts.get(colour) ?? 0) + 1);
  }
  const frequent = [...counts].sort(([a, m], [b, n]) => n - m || a - b).map(([colour]) => colour);
  for (let lost = 0; ; lost += 1) {
    const mask = (0xff << lost) & 0xff;
    const places = new Map();
    const palette = [];
    const index = new Map();
    for (const colour of frequent) {
      const close = colour & ((mask << 16) | (mask << 8) | mask);
      if (!places.has(close)) places.set(close, palette.push(colour) - 1);
      index.set(colour, places.get(close));
    }
    if (palette.length <= 256) return write(width, height, palette, (at) => index.get(colours[at]));
  }
}

/** Without interlacing, 8 bits a channel, with or without transparency: as a browser writes it. */
function read(png) {
  let header;
  const data = [];
  for (let at = MAGIC.length; at < png.length;) {
    const length = png.readUInt32BE(at);
    const body = png.subarray(at + 8, at + 8 + length);
    const kind = png.toString('latin1', at + 4, at + 8);
    if (kind === 'IHDR')
      header = { width: body.readUInt32BE(0), height: body.readUInt32BE(4), depth: body[8], colours: body[9], lace: body[12] };
    if (kind === 'IDAT') data.push(body);
    at += 12 + length;
  }
  const { width, height, depth, colours, lace } = header;
  const size = { 2: 3, 6: 4 }[colours];
  if (depth !== 8 || size === undefined || lace !== 0) throw new Error('a picture of another kind than a browser takes');
  const lines = inflateSync(Buffer.concat(data));
  const row = width * size;
  const pixels = Buffer.alloc(row * height);
  for (let y = 0; y < height; y += 1) {
    const filter = lines[y * (row + 1)];
    for (let x = 0; x < row; x += 1) {
      const left = x < size ? 0 : pixels[y * row + x - size];
      const up = y === 0 ? 0 : pixels[(y - 1) * row + x];
      const corner = x < size || y === 0 ? 0 : pixels[(y - 1) * row + x - size];
      const guess = [0, left, up, (left + up) >> 1, paeth(left, up, corner)][filter];
      pixels[y * row + x] = (lines[y * (row + 1) + 1 + x] + guess) & 0xff;
    }
  }
  return { width, height, pixels, size };
}

function paeth(left, up, corner) {
  const guess = left + up - corner;
  const [a, b, c] = [Math.abs(guess - left), Math.abs(guess - up), Math.abs(guess - corner)];
  if (a <= b && a <= c) return left;
  return b <= c ? up : corner;
}

function write(width, height, palette, index) {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 3, 0, 0, 0], 8);
  const lines = Buffer.alloc((width + 1) * height);
  for (let at = 0; at < width * height; at += 1) lines[at + Math.floor(at / width) + 1] = index(at);
  const colours = Buffer.from(palette.flatMap((colour) => [colour >> 16, (colour >> 8) & 0xff, colour & 0xff]));
  const data = deflateSync(lines, { level: 9, memLevel: 9 });
  return Buffer.concat([
    MAGIC,
    chunk('IHDR', header),
    chunk('PLTE', colours),
    chunk('IDAT', data),
    chunk('IEND', Buffer.alloc(0)),
  ]);
}

function chunk(kind, body) {
  const named = Buffer.concat([Buffer.from(kind, 'latin1'), body]);
  let crc = 0xffffffff;
  for (const byte of named) crc = CRC[(crc ^ byte) & 0xff] ^ (crc >>> 8);
  const ends = Buffer.alloc(8);
  ends.writeUInt32BE(body.length, 0);
  ends.writeUInt32BE((crc ^ 0xffffffff) >>> 0, 4);
  return Buffer.concat([ends.subarray(0, 4), named, ends.subarray(4)]);
}
