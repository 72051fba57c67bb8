//go:build noasm || !amd64

package limits

func peakOf(string) peak { return plainPeak }

func readMemory(memory []byte) { readPlain(memory) }
