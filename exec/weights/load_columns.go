package weights

import (
	"context"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/quant/tiled"
)

// ReadColumns reads count columns of a matrix, from column first on, into dst.
func (ld *Loader) ReadColumns(ctx context.Context, s *modelfile.TensorSlice, first, count int, dst []float32 /* [count, rows] */) error {
	rowBytes := int(s.Bytes()) / s.Rows
	return ld.eachRows(ctx, s, columnReadBytes, func(at, n int, raw []byte) {
		// The padding avoids cache conflicts between rows a power of two apart.
		const apart = 16
		var rows [tiled.TileRows][]float32 // a tile of rows fills a cache line of each column
		floats := make([]float32, len(rows)*(s.Cols+apart))
		for i := range rows {
			rows[i] = floats[i*(s.Cols+apart):][:s.Cols]
		}
		for ; n > 0; at, n, raw = at+len(rows), n-len(rows), raw[min(len(raw), len(rows)*rowBytes):] {
			few := rows[:min(n, len(rows))]
			for i, row := range few {
				quant.DequantRow(s.Type, row, raw[i*rowBytes:(i+1)*rowBytes])
			}
			for c := range count {
				column := dst[c*s.Rows+at:][:len(few)]
				for i, row := range few {
					column[i] = row[first+c]
				}
			}
		}
	})
}

// columnReadBytes is roughly how many bytes of rows are read before they are transposed. As
// floats they take up to eight times as much memory.
const columnReadBytes = 256 << 10
