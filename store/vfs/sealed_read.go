package vfs

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/llmrun/llmrun/store/gcm"
)

// Encrypted is an open file of a Sealed file system. Its blocks can also be read with a
// [ReadQueue], and decrypted where they are; package prefetch does that.
type Encrypted interface {
	File
	// Stored returns the file and the offset that hold the ciphertext of n bytes at off, or nil
	// if only ReadAt can read them.
	Stored(off, n int64) (file File, at int64)
	// Check decrypts the ciphertext of whole units at off in place. It fails if a unit is not
	// as it was written.
	Check(p []byte, off int64) error
	// Unit returns the size of a unit.
	Unit() int
}

// AsEncrypted returns a file of a Sealed file system.
func AsEncrypted(f File) (e Encrypted, ok bool) {
	s, ok := f.(*sealedFile)
	return s, ok
}

// ReadAt decrypts the blocks of a range. It fails if one of them is not as it was written, and
// for blocks of an allocated file that were never written.
func (f *sealedFile) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, wrap("read", f.name, off, errors.New("negative offset"))
	}
	if rest := f.size.Load() - off; rest < int64(len(p)) {
		p = p[:max(0, rest)]
		err = wrap("read", f.name, off+int64(len(p)), io.EOF)
	}
	if err := f.flushRange(off, int64(len(p))); err != nil {
		return 0, err
	}
	b := f.buffers.get()
	defer f.buffers.put(b)
	for n < len(p) {
		k, failed := f.readBlocks(b, p[n:], off+int64(n))
		if n += k; failed != nil {
			return n, failed
		}
	}
	return n, err
}

// readBlocks fills the beginning of p, as much as b has room for.
func (f *sealedFile) readBlocks(b *sealBuffer, p []byte, off int64) (n int, err error) {
	first := off / sealBlock
	last := min((off+int64(len(p))-1)/sealBlock, first+sealBatch-1)
	need := int(last-first+1) * sealBlock
	got, err := f.file.ReadAt(b.memory[:need], f.place(first))
	if got < need {
		if err == nil || errors.Is(err, io.EOF) {
			err = sealError(f.file, f.place(first)+int64(got), "it ends within a block")
		}
		return 0, err
	}
	if err := f.readEntries(b, first, last-first+1); err != nil {
		return 0, err
	}
	for i := first; i <= last; i++ {
		at := int(i-first) * sealBlock
		within := int(off + int64(n) - i*sealBlock)
		want := min(sealBlock-within, len(p)-n)
		into := b.memory[at:at] // decrypts in place
		if want == sealBlock {
			into = p[n:n]
		}
		plain, err := f.openBlock(b, into, at, i, int(i-first))
		if err != nil {
			return n, err
		}
		if want < sealBlock {
			copy(p[n:n+want], plain[within:])
		}
		n += want
	}
	return n, nil
}

// openBlock decrypts a block whose ciphertext is at an offset of the buffer, with an entry of the
// buffer, to the capacity of into.
func (f *sealedFile) openBlock(b *sealBuffer, into []byte, at int, block int64, entry int) ([]byte, error) {
	if f.fast != nil {
		plain := into[:sealBlock]
		return plain, f.openFast(b, plain, b.memory[at:at+sealBlock], block, entry)
	}
	tag := b.aim(block, entry)
	behind := b.memory[at+sealBlock:][:sealTag] // the tag follows the ciphertext; it may be the next block's place
	copy(b.saved[:], behind)
	copy(behind, tag[:])
	plain, err := f.aead.Open(into, b.nonce[:], b.memory[at:at+sealBlock+sealTag], b.place[:])
	copy(behind, b.saved[:])
	if err != nil {
		return nil, f.tagError(block)
	}
	return plain, nil
}

// openFast decrypts the ciphertext of a block with an entry of the buffer into dst, which may be
// the same memory.
func (f *sealedFile) openFast(b *sealBuffer, dst, ciphertext []byte, block int64, entry int) error {
	tag := b.aim(block, entry)
	if !f.fast.Open(&b.work, dst, ciphertext, &b.nonce, &b.place, tag) {
		clear(dst)
		return f.tagError(block)
	}
	return nil
}

func (f *sealedFile) tagError(block int64) error {
	return sealError(f.file, f.place(block), "block %d does not match its tag", block)
}

// aim sets the nonce and the additional data of a block, and returns its tag.
func (b *sealBuffer) aim(block int64, entry int) (tag *[sealTag]byte) {
	e := b.entries[entry*sealEntry:][:sealEntry]
	copy(b.nonce[sealNonce-sealCounter:], e[:sealCounter])
	binary.LittleEndian.PutUint64(b.place[:], uint64(block))
	return (*[sealTag]byte)(e[sealCounter:])
}

// Stored implements Encrypted. A file that is being written has its table in memory, and
// possibly a block.
func (f *sealedFile) Stored(off, n int64) (File, int64) {
	if off%sealBlock != 0 || off+n > f.blocks()*sealBlock || f.tags == nil || f.partial.Load() != noBlock || !Queueable(f.file) {
		return nil, 0
	}
	return f.file, f.start + off
}

// Unit implements Encrypted.
func (f *sealedFile) Unit() int { return sealBlock }

// Check implements Encrypted. Any number of goroutines may call it for different bytes.
func (f *sealedFile) Check(p []byte, off int64) error {
	if f.tags == f.file {
		f.cached.once.Do(f.loadTable)
	}
	b := f.single.get()
	defer f.single.put(b)
	for first := off / sealBlock; len(p) >= sealBlock; {
		n := min(len(p)/sealBlock, sealBatch)
		if err := f.readEntries(b, first, int64(n)); err != nil {
			return err
		}
		for i := range n {
			if err := f.openInPlace(b, p[:sealBlock], first+int64(i), i); err != nil {
				return err
			}
			p = p[sealBlock:]
		}
		first += int64(n)
	}
	return nil
}

// openInPlace decrypts a block where it is, with an entry of the buffer.
func (f *sealedFile) openInPlace(b *sealBuffer, p []byte, block int64, entry int) error {
	if f.fast != nil {
		return f.openFast(b, p, p, block, entry)
	}
	copy(b.memory, p)
	_, err := f.openBlock(b, p[:0], 0, block, entry)
	return err
}

// sealBatch is the number of blocks that are read or written at a time.
const sealBatch = 32

// sealBuffer is memory for blocks, aligned for direct reads, and for their entries.
type sealBuffer struct {
	memory  []byte // [blocks*sealBlock + sealTag]
	entries [sealBatch * sealEntry]byte
	saved   [sealTag]byte
	nonce   [sealNonce]byte
	place   [8]byte
	work    gcm.Scratch
}

// sealBuffers lends buffers of a number of blocks, so that reads allocate nothing in the long run.
type sealBuffers struct {
	free   chan *sealBuffer
	blocks int
}

// sealBuffersKept is the number of free buffers that stay allocated: one for each concurrent
// reader of picked pages.
const sealBuffersKept = 8

// SealedHeap is the Go heap that a Sealed file system keeps for its open files: tables, and the
// buffers that they share.
const SealedHeap = sealTablesMost + sealBuffersKept*((sealBatch+1)*sealBlock+2*(DirectAlign+sealBatch*sealEntry+sealTag))

func newSealBuffers(blocks int) *sealBuffers {
	return &sealBuffers{make(chan *sealBuffer, sealBuffersKept), blocks}
}

func (s *sealBuffers) get() *sealBuffer {
	select {
	case b := <-s.free:
		return b
	default:
		size := s.blocks*sealBlock + sealTag
		return &sealBuffer{memory: AlignDirect(make([]byte, size+DirectAlign))[:size]}
	}
}

func (s *sealBuffers) put(b *sealBuffer) {
	select {
	case s.free <- b:
	default:
	}
}
