package vfs

import (
	"encoding/binary"
	"errors"
	"io"
)

// WriteAt seals whole blocks at once. Of a block of which only a part is written, it collects the
// parts in memory until another block, a read, Sync or Close needs the place.
func (f *sealedFile) WriteAt(p []byte, off int64) (n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.mayWrite("write", off); err != nil {
		return 0, err
	}
	for n < len(p) && err == nil {
		at := off + int64(n)
		within := int(at % sealBlock)
		k := min(sealBlock-within, len(p)-n)
		if k == sealBlock {
			k = min(sealBatch*sealBlock, (len(p)-n)/sealBlock*sealBlock)
			err = f.writeBlocks(p[n:n+k], at/sealBlock)
		} else if err = f.load(at / sealBlock); err == nil {
			copy(f.block[within:], p[n:n+k])
		}
		if err == nil {
			n += k
			f.size.Store(max(f.size.Load(), off+int64(n)))
			f.changed = true
		}
	}
	return n, err
}

// mayWrite returns an error for files that were opened for reading.
func (f *sealedFile) mayWrite(op string, off int64) error {
	if f.created && off >= 0 {
		return nil
	}
	return wrap(op, f.name, off, ErrReadOnly)
}

// writeBlocks seals and writes whole blocks, at most sealBatch.
func (f *sealedFile) writeBlocks(p []byte, first int64) error {
	n := len(p) / sealBlock
	if at := f.partial.Load(); at >= first && at < first+int64(n) {
		f.partial.Store(noBlock) // it is overwritten
	}
	b := f.scratch
	for i := range n {
		at := i * sealBlock
		binary.LittleEndian.PutUint64(b.place[:], uint64(first)+uint64(i))
		// The tag goes where the next block will be.
		f.seal(b, b.memory[at:at], p[at:at+sealBlock], b.place[:])
		copy(b.entries[i*sealEntry:], b.nonce[sealNonce-sealCounter:])
		copy(b.entries[i*sealEntry+sealCounter:(i+1)*sealEntry], b.memory[at+sealBlock:])
	}
	if _, err := f.file.WriteAt(b.memory[:n*sealBlock], f.place(first)); err != nil {
		return err
	}
	return f.writeEntries(b.entries[:n*sealEntry], first)
}

// seal appends the ciphertext of p and its tag. The nonce stays in b.
func (f *sealedFile) seal(b *sealBuffer, to, p, about []byte) []byte {
	binary.LittleEndian.PutUint64(b.nonce[sealNonce-sealCounter:], f.counter)
	f.counter++
	return f.aead.Seal(to, b.nonce[:], p, about)
}

// writeEntries sets entries of the table from that of a block on.
func (f *sealedFile) writeEntries(entries []byte, first int64) error {
	if f.tags != nil {
		_, err := f.tags.WriteAt(entries, first*sealEntry)
		if err == nil {
			f.cached.write(entries, first)
		}
		return err
	}
	f.resizeTable(max(first+int64(len(entries)/sealEntry), int64(len(f.table)/sealEntry)))
	copy(f.table[first*sealEntry:], entries)
	return nil
}

// resizeTable sets the number of entries. New ones are zeros, which match no block.
func (f *sealedFile) resizeTable(blocks int64) {
	n := int(blocks * sealEntry)
	if n > len(f.table) {
		f.table = append(f.table, make([]byte, n-len(f.table))...)
	}
	f.table = f.table[:n]
}

// load makes a block the one in f.block.
func (f *sealedFile) load(block int64) error {
	if f.partial.Load() == block {
		return nil
	}
	if err := f.flush(); err != nil {
		return err
	}
	if f.block == nil {
		f.block = make([]byte, sealBlock)
	}
	clear(f.block)
	b := f.scratch
	written, err := f.entryOf(b, block)
	if err != nil {
		return err
	}
	if written {
		if n, err := f.file.ReadAt(b.memory[:sealBlock], f.place(block)); n < sealBlock {
			return errors.Join(err, sealError(f.file, f.place(block)+int64(n), "it ends within a block"))
		}
		if _, err := f.openBlock(b, f.block[:0], 0, block, 0); err != nil {
			return err
		}
	}
	f.partial.Store(block)
	return nil
}

// entryOf reads the entry of a block and reports whether the block was ever written.
func (f *sealedFile) entryOf(b *sealBuffer, block int64) (written bool, err error) {
	entry := b.entries[:sealEntry]
	clear(entry)
	if f.tags == nil {
		copy(entry, f.table[min(block*sealEntry, int64(len(f.table))):])
	} else if _, err := f.tags.ReadAt(entry, block*sealEntry); err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	return !zero(entry), nil
}

func zero(p []byte) bool {
	for _, v := range p {
		if v != 0 {
			return false
		}
	}
	return true
}

// flush writes the block in f.block.
func (f *sealedFile) flush() error {
	at := f.partial.Load()
	if at == noBlock {
		return nil
	}
	if err := f.writeBlocks(f.block, at); err != nil {
		f.partial.Store(at) // a later flush tries again
		return err
	}
	return nil
}

// flushRange writes the block in f.block if a read needs it.
func (f *sealedFile) flushRange(off, n int64) error {
	if at := f.partial.Load(); at == noBlock || n == 0 || at < off/sealBlock || at > (off+n-1)/sealBlock {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.flush()
}

// allocate reserves the space of the blocks and of the table.
func (f *sealedFile) allocate(size int64) error {
	return f.resize("allocate", size, func(onDisk int64) error { return Allocate(f.file, onDisk) })
}

// Truncate cuts the content, or extends it by blocks that cannot be read before they are written.
func (f *sealedFile) Truncate(size int64) error {
	return f.resize("truncate", size, f.file.Truncate)
}

func (f *sealedFile) resize(op string, size int64, resize func(onDisk int64) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.mayWrite(op, size); err != nil {
		return err
	}
	if size < f.size.Load() {
		if err := f.cut(size); err != nil {
			return err
		}
	}
	onDisk := f.place(blocksOf(size))
	if f.tags == nil {
		onDisk += blocksOf(size) * sealEntry
	}
	if err := resize(onDisk); err != nil {
		return err
	}
	if f.tags == nil {
		f.resizeTable(blocksOf(size))
	}
	f.changed = true
	f.size.Store(size)
	return nil
}

// cut clears the content after an offset in the block that holds it.
func (f *sealedFile) cut(size int64) error {
	if at := f.partial.Load(); at >= blocksOf(size) {
		f.partial.Store(noBlock)
	}
	within := size % sealBlock
	if within == 0 {
		return nil
	}
	if err := f.load(size / sealBlock); err != nil {
		return err
	}
	clear(f.block[within:])
	return nil
}

// finish writes what is not on the disk yet: a part of a block, the table and the length.
func (f *sealedFile) finish() error {
	if !f.created {
		return nil
	}
	if err := f.flush(); err != nil {
		return err
	}
	if !f.changed || f.tags != nil {
		return nil
	}
	f.resizeTable(f.blocks())
	if len(f.table) > 0 {
		if _, err := f.file.WriteAt(f.table, f.place(f.blocks())); err != nil {
			return err
		}
	}
	_, err := f.file.WriteAt(f.header(), 0)
	f.changed = err != nil
	return err
}

// header returns the bytes before the first block.
func (f *sealedFile) header() []byte {
	var length [8]byte
	binary.LittleEndian.PutUint64(length[:], uint64(f.size.Load()))
	b := f.scratch
	header := b.memory[:sealStart]
	clear(header)
	copy(header, f.prefix)
	f.seal(b, header[sealLengthAt+sealCounter:sealLengthAt+sealCounter], length[:], f.prefix)
	copy(header[sealLengthAt:], b.nonce[sealNonce-sealCounter:])
	return header
}

func (f *sealedFile) Sync() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.finish(); err != nil {
		return err
	}
	return f.file.Sync()
}

func (f *sealedFile) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.finish()
	if f.created {
		f.created = false
		f.buffers.put(f.scratch)
	}
	f.cached.free()
	if f.tags != nil && f.tags != f.file {
		err = errors.Join(err, f.tags.Close())
	}
	return errors.Join(err, f.file.Close())
}
