package vfs

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/llmrun/llmrun/store/gcm"
)

const (
	sealMagic   = "LLMRSEAL"
	sealVersion = 1
	sealSalt    = 32
	sealTag     = 16 // of AES-GCM
	sealCounter = 8  // the stored part of a nonce, whose first four bytes are zero
	sealNonce   = 12
	sealEntry   = sealCounter + sealTag

	// sealBlock is the unit of encryption: small, because pages of KV are read one by one, and
	// such that aligned reads and writes cover whole blocks.
	sealBlock = DirectAlign
	// sealStart is the offset of the first block: blocks keep the alignment of direct reads.
	sealStart = DirectAlign

	// The header: magic, version, salt, the sealed length of the content, and zeros.
	sealLengthAt = len(sealMagic) + 4 + sealSalt
	sealHeader   = sealLengthAt + sealCounter + 8 + sealTag
)

// sealedFile is a file of a Sealed file system:
//
//	header  magic "LLMRSEAL", version (uint32), salt (32 bytes), a sealed uint64, the length of
//	        the content, and zeros up to 4096 bytes
//	blocks  the ciphertext of each 4096 bytes of the content; zeros pad the last block
//	table   for each block: counter (uint64), tag (16 bytes)
//
// AES-256-GCM seals blocks with the number of the block as additional data, so that blocks cannot
// be exchanged, and the length with the beginning of the header. The key is derived from the
// master key and the salt. The counter, which is the nonce, increases with every block that the
// creating handle seals, also when it writes a block again. No other handle writes with this
// key, so a nonce is used once.
//
// Sync and Close write the length and the table. A file of a process that was killed before has
// none, and does not open. A scratch file has no header, a random key, and the table in another
// scratch file.
type sealedFile struct {
	file    File // on the disk
	name    string
	aead    cipher.AEAD
	fast    *gcm.Opener  // decrypts instead of aead; nil: this processor has no fast path
	buffers *sealBuffers // of sealBatch blocks
	single  *sealBuffers // of one block
	prefix  []byte       // the header before the length; nil for a scratch file
	start   int64        // offset of the first block
	tags    File         // holds the table; nil if table does
	tagsAt  int64        // offset of the table in tags
	cached  cachedTable
	size    atomic.Int64
	partial atomic.Int64 // number of the block in block; noBlock if none

	mu      sync.Mutex // for writing, and for table
	created bool       // this handle may write
	changed bool       // the length and the table are not on the disk
	counter uint64     // of the next block
	table   []byte     // of a file that is not a scratch file, for the handle that created it
	block   []byte     // [sealBlock] content of a block of which only a part was written
	scratch *sealBuffer
}

const noBlock = -1

// newSealedFile returns a file whose key derives from the salt in prefix.
func newSealedFile(file File, name string, s *sealedFS, prefix []byte) *sealedFile {
	f := &sealedFile{file: file, name: name, buffers: s.buffers, single: s.single, prefix: prefix, start: sealStart}
	f.cached.room = s.tables
	f.partial.Store(noBlock)
	f.useKey((*[SealKeyBytes]byte)(derive(s.key, prefix[len(sealMagic)+4:], "llmrun sealed file")))
	return f
}

// useKey sets the key of the file.
func (f *sealedFile) useKey(key *[SealKeyBytes]byte) { f.aead, f.fast = newAEAD(key[:]), gcm.New(key) }

func newAEAD(key []byte) cipher.AEAD {
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // the key has a valid length
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err) // AES has the block size of GCM
	}
	return aead
}

// createSealed begins an empty file.
func createSealed(file File, name string, s *sealedFS) (*sealedFile, error) {
	prefix := binary.LittleEndian.AppendUint32([]byte(sealMagic), sealVersion)
	prefix = append(prefix, make([]byte, sealSalt)...)
	_, _ = rand.Read(prefix[len(prefix)-sealSalt:]) // it never fails
	f := newSealedFile(file, name, s, prefix)
	f.created, f.changed = true, true
	f.scratch = s.buffers.get()
	return f, file.Truncate(sealStart)
}

// scratchSealed returns an empty file without a header, and with its table in tags.
func scratchSealed(file, tags File, s *sealedFS) *sealedFile {
	var key [SealKeyBytes]byte
	_, _ = rand.Read(key[:]) // it never fails
	f := &sealedFile{file: file, name: file.Name(), buffers: s.buffers, single: s.single, tags: tags, created: true, scratch: s.buffers.get()}
	f.useKey(&key)
	f.cached.room = s.tables
	f.partial.Store(noBlock)
	return f
}

// openSealed checks the header and the length of a file.
func openSealed(file File, name string, s *sealedFS) (*sealedFile, error) {
	header := make([]byte, sealStart)
	if n, err := file.ReadAt(header, 0); n < len(header) {
		if err == nil || errors.Is(err, io.EOF) {
			err = sealError(file, int64(n), "its header is incomplete")
		}
		return nil, err
	}
	if string(header[:len(sealMagic)]) != sealMagic {
		return nil, sealError(file, 0, "it does not begin with %q", sealMagic)
	}
	if v := binary.LittleEndian.Uint32(header[len(sealMagic):]); v != sealVersion {
		return nil, sealError(file, int64(len(sealMagic)), "version %d is unknown, this program reads %d", v, sealVersion)
	}
	f := newSealedFile(file, name, s, bytes.Clone(header[:sealLengthAt]))
	var nonce [sealNonce]byte
	copy(nonce[sealNonce-sealCounter:], header[sealLengthAt:])
	length, err := f.aead.Open(nil, nonce[:], header[sealLengthAt+sealCounter:sealHeader], f.prefix)
	if err != nil || !zero(header[sealHeader:]) {
		return nil, sealError(file, int64(sealLengthAt), "its length cannot be verified")
	}
	f.size.Store(int64(binary.LittleEndian.Uint64(length)))
	f.tags, f.tagsAt = file, f.place(f.blocks())
	onDisk, err := file.Size()
	if err != nil {
		return nil, err
	}
	if want := f.tagsAt + f.blocks()*sealEntry; onDisk != want {
		return nil, sealError(file, onDisk, "it has %d bytes instead of %d", onDisk, want)
	}
	return f, nil
}

// sealError returns an error about the bytes of a file on the disk.
func sealError(file File, off int64, reason string, args ...any) error {
	return wrap("decrypt", file.Name(), off, fmt.Errorf("%w: "+reason, append([]any{ErrSeal}, args...)...))
}

// blocksOf returns the number of blocks of a content.
func blocksOf(size int64) int64 { return (size + sealBlock - 1) / sealBlock }

// blocks returns the number of blocks.
func (f *sealedFile) blocks() int64 { return blocksOf(f.size.Load()) }

// place returns the offset of a block on the disk.
func (f *sealedFile) place(block int64) int64 { return f.start + block*sealBlock }

func (f *sealedFile) Name() string { return f.name }

func (f *sealedFile) Size() (int64, error) { return f.size.Load(), nil }
