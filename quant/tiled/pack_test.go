package tiled

import (
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/quant"
)

// randomBytes returns rows of a type with random bits.
func randomBytes(t quant.Type, rows, cols int) []byte {
	n, _ := t.RowBytes(cols)
	random := rand.New(rand.NewPCG(1, uint64(t)))
	src := make([]byte, rows*n)
	for i := range src {
		src[i] = byte(random.Uint32())
	}
	return src
}

// TestPackersMatchTheDefinition checks that packers write the same bytes as packing element
// by element.
func TestPackersMatchTheDefinition(t *testing.T) {
	for typ, f := range formats {
		t.Run(typ.String(), func(t *testing.T) {
			const rows, cols = 37, 768
			src := randomBytes(typ, rows, cols)
			got := packed(t, typ, src, rows, cols).Data
			want := make([]byte, len(got))
			blockBytes := typ.BlockBytes()
			rowBytes := len(src) / rows
			for row := range rows {
				for b := range rowBytes / blockBytes {
					at := row/TileRows*TileRows*rowBytes + b*blockBytes*TileRows
					f.packElements(want[at:][:blockBytes*TileRows], row%TileRows, src[row*rowBytes+b*blockBytes:][:blockBytes])
				}
			}
			require.Equal(t, want, got)
		})
	}
}

// layouts holds the first bytes of the SHA-256 sums of packed matrices. A change of a sum
// means that the order in tiles has changed. Increase LayoutVersion then, so that readers
// reject files with the old order.
var layouts = map[quant.Type]string{
	quant.Q4_0:    "adb647810f80",
	quant.Q4_1:    "2b18cb4e9bc5",
	quant.Q5_0:    "15cc2ee257ca",
	quant.Q5_1:    "4114af6f4ef0",
	quant.Q8_0:    "87e511f23fa9",
	quant.Q4_K:    "755a8d7b7b3b",
	quant.Q5_K:    "2bcc445691de",
	quant.Q6_K:    "e1a77e9fbf0e",
	quant.IQ4_NL:  "a0c4e8e9973f",
	quant.IQ4_XS:  "bca8f7f31e36",
	quant.MXFP4:   "13f50a4cce33",
	quant.I4Z:     "e661a15c8d13",
	quant.NF4:     "df2a8582ff94",
	quant.IQ1_S:   "26feea2533f8",
	quant.IQ1_M:   "38605f2abe93",
	quant.IQ2_XXS: "6741627e8873",
	quant.IQ2_XS:  "3cc701692e37",
	quant.IQ2_S:   "90d5ad1d7bff",
	quant.IQ3_XXS: "788724365447",
	quant.IQ3_S:   "149e525dad3a",
	quant.TQ1_0:   "56d34a07de01",
	quant.TQ2_0:   "985203496799",
	quant.Q1_0:    "d4f922d3bf5d",
	quant.Q2_0:    "33bd85b33764",
	quant.NVFP4:   "a4f441083934",
}

// TestLayoutMatchesVersion checks that the layout of tiles changes only with LayoutVersion.
func TestLayoutMatchesVersion(t *testing.T) {
	require.Equal(t, 1, LayoutVersion, "a new version has new sums")
	got := map[quant.Type]string{}
	for typ := range formats {
		sum := sha256.Sum256(packed(t, typ, randomBytes(typ, 19, 512), 19, 512).Data)
		got[typ] = hex.EncodeToString(sum[:6])
	}
	require.Equal(t, layouts, got)
}

func BenchmarkPack(b *testing.B) {
	const rows, cols = 256, 2048
	for _, typ := range append([]quant.Type{quant.Q5_0, quant.IQ4_XS}, benchTypes...) {
		b.Run(typ.String(), func(b *testing.B) {
			src := randomBytes(typ, rows, cols)
			dst := make([]byte, len(src))
			b.SetBytes(int64(len(src)))
			took := fastest(b, func() { Pack(dst, typ, src, rows, cols) })
			b.ReportMetric(float64(len(src))/took.Seconds()/1e6, "best-MB/s")
		})
	}
}
