//go:build noasm || !(amd64 || arm64)

package crc

const (
	hasFold   = false
	foldBytes = 1
)

func fold(uint32, *byte, int) uint32 { panic("crc: fold needs the assembly fast path") }
