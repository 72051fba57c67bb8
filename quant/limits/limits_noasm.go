//go:build noasm || !amd64

package limits

func peakOf(string) peak { return plainPeak }

// tilePeak is not used: there are no tiles.
var tilePeak = plainPeak

// Read reads memory as fast as one thread of plain Go can.
func Read(memory []byte) { readPlain(memory) }
