package gguf

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

// File is an open model: one GGUF file or all shards of a split model. Reading tensors is
// safe for concurrent use until Close.
type File struct {
	*store.Index
	meta *Metadata
}

var _ store.Source = (*File)(nil)

// Meta returns the metadata. In a split model it is that of the first shard.
func (f *File) Meta() *Metadata { return f.meta }

// Open opens a model by the path of its file or of any shard. A file without tensors, such
// as a bare vocabulary, is valid.
func Open(fsys vfs.FS, path string) (*File, error) { return open(fsys, path, false) }

// OpenTensors is Open for a program that needs only the tensors and the description of the
// network: it skips the arrays of the tokenizer, which take nearly all of the memory of the
// metadata. Their keys are absent, except for Len.
func OpenTensors(fsys vfs.FS, path string) (*File, error) { return open(fsys, path, true) }

func open(fsys vfs.FS, path string, lean bool) (*File, error) {
	named, err := openShard(fsys, path, lean)
	if err != nil {
		return nil, err
	}
	shards, err := openSiblings(fsys, path, named, lean)
	if err != nil {
		return nil, err
	}
	var files []vfs.File
	var stamps []vfs.Stamp
	var tensors []store.Tensor
	for i, p := range shards {
		files, stamps = append(files, p.file), append(stamps, p.stamp)
		tensors = slices.Grow(tensors, len(p.tensors))
		for _, t := range p.tensors {
			t.File = i
			tensors = append(tensors, t)
		}
	}
	index, err := store.NewIndex(files, stamps, tensors)
	if err != nil {
		return nil, errors.Join(err, store.CloseAll(files))
	}
	return &File{Index: index, meta: shards[0].meta}, nil
}

// shard is one file of a model.
type shard struct {
	file    vfs.File
	stamp   vfs.Stamp // before the header was read
	meta    *Metadata
	tensors []store.Tensor // File is not set yet
}

// openShard opens a file and reads its header; lean as in OpenTensors.
func openShard(fsys vfs.FS, path string, lean bool) (*shard, error) {
	file, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	p, err := readShard(fsys, file, lean)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return p, nil
}

// readShard reads and checks the header of a file.
func readShard(fsys vfs.FS, file vfs.File, lean bool) (*shard, error) {
	stamp, err := vfs.StampForReading(file)
	if err != nil {
		return nil, err
	}
	size, err := file.Size()
	if err != nil {
		return nil, err
	}
	r := newReader(fsys, file, size)
	r.lean = lean
	if err := r.magicAndVersion(); err != nil {
		return nil, err
	}
	tensorCount := r.count(field{what: "tensor count"}, minTensorBytes, maxTensors)
	keyCount := r.count(field{what: "key count"}, minEntryBytes, maxKeys)
	if need := int64(tensorCount)*minTensorBytes + int64(keyCount)*minEntryBytes; need > r.left() {
		r.truncated(field{what: "tensor and key count together"}, uint64(need))
	}
	if r.err != nil {
		return nil, r.err
	}
	meta := r.metadata(keyCount)
	if r.err != nil {
		return nil, r.err
	}
	alignment, err := meta.alignment()
	if err != nil {
		return nil, err
	}
	tensors := r.tensors(tensorCount)
	if r.err != nil {
		return nil, r.err
	}
	if err := r.resolveOffsets(tensors, alignment, size); err != nil {
		return nil, err
	}
	return &shard{file: file, stamp: stamp, meta: meta, tensors: tensors}, nil
}

// Magic is how a file begins.
const Magic = "GGUF"

// magicAndVersion rejects other file formats and versions. For formats that users confuse
// with GGUF it gives a specific hint.
func (r *reader) magicAndVersion() error {
	head := bytes.Clone(r.take(field{what: "magic"}, len(Magic)))
	if r.err != nil {
		return r.err
	}
	if string(head) != Magic {
		r.off = 0
		return r.setError(&store.FormatError{
			Field: "magic", Reason: fmt.Sprintf("%q is not %q", head, Magic), Hint: guessFormat(head), Kind: store.ErrFormat,
		})
	}
	switch version := r.u32(field{what: "version"}); {
	case r.err != nil:
	case version == 2 || version == 3:
	case version == 1:
		r.setError(&store.FormatError{Field: "version", Reason: "1 is not supported", Hint: "convert the model again", Kind: store.ErrUnsupported})
	case version != 0 && version&0xffff == 0:
		r.setError(&store.FormatError{Field: "version", Reason: fmt.Sprintf("%#x: is the file big-endian?", version), Hint: "only little-endian files are supported", Kind: store.ErrUnsupported})
	default:
		r.setError(&store.FormatError{Field: "version", Reason: fmt.Sprintf("%d is unknown; this program reads 2 and 3", version), Kind: store.ErrUnsupported})
	}
	return r.err
}

// guessFormat returns a hint for a file with another magic.
func guessFormat(head []byte) string {
	switch string(head) {
	case "FUGG":
		return "the file is big-endian; only little-endian files are supported"
	case "gguf":
		return "the magic must be in capital letters"
	case "PK\x03\x04":
		return "the file is a zip archive, perhaps a PyTorch checkpoint; convert it first"
	case "ggml", "ggmf", "ggjt", "lmgg", "fmgg", "tjgg":
		return "the format is older than GGUF; convert the model again"
	}
	if len(head) == 4 && head[2] == 0 && head[3] == 0 {
		return "this may be a safetensors file; its name should end in .safetensors"
	}
	return "the file is not a GGUF file"
}
