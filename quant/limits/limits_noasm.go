//go:build noasm || !(amd64 || arm64)

package limits

func peakOf(string) peak { return plainPeak }

// tilePeak satisfies the reference in MatrixPeak; quant.Tiles is false here.
var tilePeak = plainPeak

// Read loads memory in portable Go.
func Read(memory []byte) { readPlain(memory) }
