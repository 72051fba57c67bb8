package exec

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/store/w8a8"
)

// columnType returns the type of a calibration's columns for weights of a type:
// floats as they are.
func columnType(t quant.Type) quant.Type {
	if t.IsFloat() {
		return t
	}
	return quant.F32
}

// layerMatrices returns the matrices of all layers by name, as far as a mix may
// quantize them, without loading them.
func (f *Files) layerMatrices() (*loader, map[string]*slot, error) {
	spec, err := f.Spec()
	if err != nil {
		return nil, nil, err
	}
	ld := &loader{ts: f.tensors(), spec: spec}
	plans, err := ld.planAll(&weights{layers: make([]layerWeights, len(spec.Layers))})
	if err != nil {
		return nil, nil, err
	}
	named := map[string]*slot{}
	for i := range plans {
		for j := range plans[i].places {
			if p := &plans[i].places[j]; p.matrix != nil && plans[i].kind == layerLayout {
				named[p.name] = &p.slot
			}
		}
	}
	return ld, named, nil
}

// calibrationIdentity says which model a calibration belongs to, as a pack or as what
// that was made from: where it comes from, and what its matrices are like. Their
// first rows tell apart what adapters and rounding have changed.
func (f *Files) calibrationIdentity() (string, error) {
	about, err := f.about("")
	if err != nil {
		return "", err
	}
	ld, named, err := f.layerMatrices()
	if err != nil {
		return "", err
	}
	h := sha256.New()
	h.Write(about.Fingerprint[:])
	has := func(name string) bool { return named[name] != nil }
	for _, group := range inputGroups(len(ld.spec.Layers), has) {
		for _, name := range group {
			s := named[name]
			fmt.Fprintf(h, "%s %s %d %d\n", name, s.typ, s.rows, s.cols)
			row := make([]byte, s.bytes()/int64(s.rows))
			if err := ld.readRows(s, 0, row); err != nil {
				return "", err
			}
			h.Write(row)
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// WriteCalibration writes what MeasureOutliers found out about the model, with the
// columns of those inputs for which keep is true. progress is told the bytes of
// columns.
func (f *Files) WriteCalibration(ctx context.Context, fsys vfs.FS, path string, index *w8a8.Index, keep func(*w8a8.Input) bool, progress func(done, total int64)) error {
	ld, named, err := f.layerMatrices()
	if err != nil {
		return err
	}
	var done, total int64
	for i := range index.Inputs {
		in := &index.Inputs[i]
		for j := range in.Matrices {
			m := &in.Matrices[j]
			m.At = 0
			if keep(in) {
				m.At = w8a8.Wanted
				total += int64(in.Cols) * m.ColumnBytes()
			}
		}
	}
	return w8a8.Write(fsys, path, index, func(_ *w8a8.Input, m *w8a8.Matrix, first, count int, dst []float32) error {
		if err := ld.readColumns(ctx, named[m.Name], first, count, dst); err != nil {
			return err
		}
		if done += int64(count) * m.ColumnBytes(); progress != nil {
			progress(done, total)
		}
		return nil
	})
}

// columnChunk is about how many bytes of rows are read before they are turned into
// columns; as floats they take up to eight times as much.
const columnChunk = 256 << 10

// readColumns puts count columns of a matrix, from first on, into dst.
func (ld *loader) readColumns(ctx context.Context, s *slot, first, count int, dst []float32 /* [count, rows] */) error {
	rowBytes := int(s.bytes()) / s.rows
	return ld.eachRows(ctx, s, columnChunk, func(at, n int, raw []byte) {
		// Rows whose beginnings are a power of two apart would drive each other out of
		// the cache.
		const apart = 16
		var rows [tiled.TileRows][]float32 // a tile of them fills a line of each column
		floats := make([]float32, len(rows)*(s.cols+apart))
		for i := range rows {
			rows[i] = floats[i*(s.cols+apart):][:s.cols]
		}
		for ; n > 0; at, n, raw = at+len(rows), n-len(rows), raw[min(len(raw), len(rows)*rowBytes):] {
			few := rows[:min(n, len(rows))]
			for i, row := range few {
				quant.DequantRow(s.typ, row, raw[i*rowBytes:(i+1)*rowBytes])
			}
			for c := range count {
				column := dst[c*s.rows+at:][:len(few)]
				for i, row := range few {
					column[i] = row[first+c]
				}
			}
		}
	})
}
