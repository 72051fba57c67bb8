package modelfile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

// LowRank is the change of a matrix by an adapter beside it: y += Scale·B·(A·x). Its factors have the
// type of the adapter's file if that is one of floats.
type LowRank struct {
	Adapter int // index of the adapter among those beside the weights
	Rank    int
	Type    quant.Type
	Scale   float32
	A       []byte // [Rank, cols]
	B       []byte // [blocks, Rank, BlockRows]: blocks of rows, each transposed

	runs     []rowRun // where the matrix's rows are among those of B
	from, to int      // rows of the tensor for which the factors are; 0, 0: all
}

// rowRun is neighbouring rows of a matrix that are neighbours in B too.
type rowRun struct{ at, first, n int }

// BlockRows is the number of rows of a block of LowRank.B. The last block is filled with zeros.
const BlockRows = 32

// Run returns which row of B the matrix's row lo is, and up to which row before hi the rows of the matrix are neighbours there.
func (l *LowRank) Run(lo, hi int) (row, end int) {
	i := 0
	for lo >= l.runs[i].at+l.runs[i].n {
		i++
	}
	r := &l.runs[i]
	return r.first + lo - r.at, min(hi, r.at+r.n)
}

// Blocks returns the blocks of B that hold its rows lo to hi, and how many rows of the first block are before them.
func (l *LowRank) Blocks(lo, hi int) (blocks []byte, before int) {
	size := l.BlockBytes()
	return l.B[lo/BlockRows*size : (hi+BlockRows-1)/BlockRows*size], lo % BlockRows
}

// BlockBytes returns the bytes of a block of B.
func (l *LowRank) BlockBytes() int { return l.Rank * BlockRows * l.Type.BlockBytes() }

// besideWeights are the adapters beside a model's weights.
type besideWeights struct {
	*merged
	names   []string // of the adapters; "" for those that every sequence uses
	factors map[string][]LowRank
	used    map[string]bool // tensors whose changes some matrix applies
}

// KeepBeside adds a LoRA adapter as Merge does, but leaves the weights as they are: whoever
// multiplies them also multiplies the factors that Beside returns. It may be called several
// times.
func (f *Files) KeepBeside(fsys vfs.FS, dir string) error { return f.KeepNamed(fsys, "", dir) }

// KeepNamed is KeepBeside for an adapter that only those sequences use which choose it by its name.
func (f *Files) KeepNamed(fsys vfs.FS, name, dir string) error {
	b := f.beside
	if b == nil {
		b = &besideWeights{merged: f.newMerged(f.Source), factors: map[string][]LowRank{}, used: map[string]bool{}}
	}
	if name != "" && slices.Contains(b.names, name) {
		return fmt.Errorf("%w: two adapters have the name %s", arch.ErrModel, name)
	}
	b.keep = func(t *store.Tensor, a, bt *factor, scale float32) {
		l := LowRank{Adapter: len(b.names), Rank: a.rows, Scale: scale}
		l.Type, l.A, l.B = sameFloats(a, bt)
		if b.apart[t.Name] {
			f.adapterBytes += b.keepLatent(f.latent, t.Name, &l)
			return
		}
		l.B = inBlocks(l.B, bt.rows, bt.cols, l.Type.BlockBytes())
		b.factors[t.Name] = append(b.factors[t.Name], l)
		f.adapterBytes += int64(len(l.A) + len(l.B))
	}
	if err := f.addAdapter(b.merged, fsys, dir); err != nil {
		return err
	}
	b.names = append(b.names, name)
	f.beside = b
	return nil
}

// sameFloats returns two factors as floats of the same type: their own, or F32.
func sameFloats(a, b *factor) (t quant.Type, ofA, ofB []byte) {
	if a.t == b.t && a.t.IsFloat() {
		return a.t, a.data, b.data
	}
	return quant.F32, AppendFloats(nil, a.floats()), AppendFloats(nil, b.floats())
}

// inBlocks returns a matrix of elements of size bytes in transposed blocks of rows; see LowRank.B.
func inBlocks(data []byte, rows, cols, size int) []byte {
	blocks := (rows + BlockRows - 1) / BlockRows
	out := make([]byte, blocks*BlockRows*cols*size)
	for r := range rows {
		for c := range cols {
			to := (r/BlockRows*cols+c)*BlockRows + r%BlockRows
			copy(out[to*size:][:size], data[(r*cols+c)*size:])
		}
	}
	return out
}

// BesideNames returns the names of the adapters beside the weights, by their index; "" for those that
// every sequence uses.
func (f *Files) BesideNames() []string {
	if f.beside == nil {
		return nil
	}
	return f.beside.names
}

// HasBeside reports whether there are adapters beside the weights.
func (f *Files) HasBeside() bool { return f.beside != nil }

// AdapterBytes returns the Go heap that the factors of adapters take while the model is open.
func (f *Files) AdapterBytes() int64 { return f.adapterBytes }

// Beside returns the changes of a matrix by the adapters beside the weights, in the order in which
// they were added.
func (f *Files) Beside(s *TensorSlice) (list []LowRank) {
	if f.beside == nil {
		return nil
	}
	name := s.Ranges[0].Tensor.Name
	factors := f.beside.factors[name]
	if len(factors) == 0 {
		return nil
	}
	runs := s.rowRuns()
	f.beside.used[name] = true
	for _, l := range factors {
		if l.runs = runs; l.to > 0 {
			if runs[0].first < l.from || runs[0].first >= l.to {
				continue
			}
			l.runs = []rowRun{{0, runs[0].first - l.from, s.Rows}}
		}
		list = append(list, l)
	}
	return list
}

// CheckBeside returns an error if an adapter changes a tensor for which Beside was not called.
func (f *Files) CheckBeside() error {
	if f.beside == nil {
		return nil
	}
	unused := f.unusedKeys()
	for name := range f.beside.factors {
		if !f.beside.used[name] && !unused[name] {
			return fmt.Errorf("%w: %s: an adapter changes tensor %s, which is no matrix of a layer; merge the adapter instead of keeping it beside the weights", arch.ErrUnsupported, f.Path, name)
		}
	}
	return nil
}

// unusedKeys returns the names of the key and value projections of layers that attend to those of other layers, and of the tensors of
// layers that predict further tokens. Files have them, and adapters may change them, but the network does not use them.
func (f *Files) unusedKeys() map[string]bool {
	names := map[string]bool{}
	s, err := f.Spec()
	if err != nil {
		return names // the caller has loaded the model
	}
	ts := f.TensorSet()
	for l := range s.Layers {
		if s.Layers[l].KVBack > 0 {
			names[ts.name(ProjectionRoles[projectK], l)+".weight"] = true
			names[ts.name(ProjectionRoles[projectV], l)+".weight"] = true
		}
	}
	for name := range f.beside.factors {
		number := layerNumber.FindStringSubmatch(name)
		if number != nil && strings.HasPrefix(name, strings.TrimSuffix(ts.name("", 0), "0.")+number[1]+".") {
			layer, err := strconv.Atoi(number[1])
			names[name] = names[name] || err == nil && layer >= len(s.Layers)
		}
	}
	return names
}

// PackKeepsBeside reports whether the adapters beside the weights find their tensors in a pack of
// the model too. A pack stores the matrices of a fused tensor one by one; see counterparts. matrices are those of
// the layers, by their names in a pack.
func (f *Files) PackKeepsBeside(matrices map[string]*TensorSlice) bool {
	if f.beside == nil || f.packed != nil {
		return true
	}
	whole := map[string]bool{}
	for name, s := range matrices {
		t := s.Ranges[0].Tensor
		whole[t.Name] = (name == t.Name || hubName(f.family, name) == t.Name) && s.Bytes() == t.Size
	}
	fused := f.fusedTensors()
	for name := range f.beside.factors {
		if !whole[name] && !fused[name] {
			return false
		}
	}
	return true
}

// rowRuns returns where the rows of a slice are in its tensor.
func (s *TensorSlice) rowRuns() (runs []rowRun) {
	rowBytes, at := s.Bytes()/int64(s.Rows), 0
	for _, g := range s.Ranges {
		first, n := int(g.Offset/rowBytes), int(g.Size/rowBytes)
		if last := len(runs) - 1; last >= 0 && runs[last].first+runs[last].n == first {
			runs[last].n += n
		} else {
			runs = append(runs, rowRun{at, first, n})
		}
		at += n
	}
	return runs
}
