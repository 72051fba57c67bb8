//go:build npu

package onnx

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"

	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// cache stores prepared graphs in files, keyed by everything they depend on.
// Several processes may share it: files are written atomically.
type cache struct {
	fs     vfs.FS
	dir    string
	common []byte // part of the hash of all names
}

// graphVersion is part of every key. Increase it when package graph writes other
// graphs.
const graphVersion = 2

// newCache creates the directory. It computes the common part of all hashes: the
// library, the provider with its settings, and the CPU.
func newCache(dir string, d *Device) (*cache, error) {
	c := &cache{fs: vfs.OS(), dir: dir}
	if err := c.fs.MkdirAll(dir); err != nil {
		return nil, err
	}
	c.common = fmt.Appendf(nil, "%d\n%s\n%s\n%s\n%s\n%v\n", graphVersion, d.library.release, d.provider, runtime.GOARCH, quant.Features(), d.inPlace)
	for _, k := range slices.Sorted(maps.Keys(d.settings)) {
		c.common = fmt.Appendf(c.common, "%q=%q\n", k, d.settings[k])
	}
	return c, nil
}

// name returns the file name of a graph.
func (c *cache) name(key graphKey) string {
	h := sha256.New()
	h.Write(c.common)
	fmt.Fprintf(h, "%x %v %v %d %x", key.weights.sum, key.weights.precision, key.weights.streamed, key.tokens, math.Float32bits(key.scale))
	return vfs.Join(c.dir, fmt.Sprintf("%x.graph", h.Sum(nil)[:16]))
}

// A file begins with a header: a magic, the quantization error of the weights, the
// size of the prepared graph and its SHA-256. The graph follows.
const (
	entryMark   = "LLMGRAPH"
	headerBytes = 8 + 8 + 8 + sha256.Size
)

var errDamaged = errors.New("onnx: a cached graph is damaged")

// entry is a prepared graph loaded from the cache.
type entry struct {
	quantError float64
	file       []byte
	frame      *tiering.Frame
}

func (e *entry) free() { e.frame.Free() }

// load reads a prepared graph; it returns nil if there is none.
func (c *cache) load(name string, budget *tiering.Budget) (*entry, error) {
	f, err := c.fs.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size < headerBytes || size > math.MaxInt {
		return nil, errDamaged
	}
	frame, err := tiering.Alloc(budget, tiering.Scratch, int(size))
	if err != nil {
		return nil, err
	}
	e := &entry{frame: frame}
	if err := e.read(f, frame.Bytes()); err != nil {
		e.free()
		return nil, err
	}
	return e, nil
}

// read reads and verifies an entry.
func (e *entry) read(f io.ReaderAt, all []byte) error {
	if _, err := f.ReadAt(all, 0); err != nil {
		return err
	}
	header := all[:headerBytes]
	e.file = all[headerBytes:]
	e.quantError = math.Float64frombits(binary.LittleEndian.Uint64(header[8:]))
	sum := sha256.Sum256(e.file)
	if string(header[:8]) != entryMark || binary.LittleEndian.Uint64(header[16:]) != uint64(len(e.file)) || !bytes.Equal(header[24:], sum[:]) {
		return errDamaged
	}
	return nil
}

// store calls prepare, which writes a graph to a temporary file, and adds the graph to
// the cache. err is the error of prepare. If the cache cannot store the graph, stored is
// false and the graph is usable.
func (c *cache) store(name string, rounding float64, prepare func(path string) error) (stored bool, err error) {
	temp := fmt.Sprintf("%s%s%016x", name, vfs.TempMark, rand.Uint64())
	defer func() {
		// prepare may have failed before it created the file.
		_ = c.fs.Remove(temp)
	}()
	if err := prepare(temp); err != nil {
		return false, err
	}
	return c.writeEntry(name, temp, rounding) == nil, nil
}

// writeEntry writes an entry from the library's output file.
func (c *cache) writeEntry(name, temp string, rounding float64) error {
	f, err := c.fs.Open(temp)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, size)); err != nil {
		return err
	}
	header := binary.LittleEndian.AppendUint64([]byte(entryMark), math.Float64bits(rounding))
	header = binary.LittleEndian.AppendUint64(header, uint64(size))
	header = h.Sum(header)
	return vfs.WriteAtomic(c.fs, name, func(w io.Writer) error {
		if _, err := w.Write(header); err != nil {
			return err
		}
		_, err := io.Copy(w, io.NewSectionReader(f, 0, size))
		return err
	})
}
