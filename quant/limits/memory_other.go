//go:build !linux

package limits

func adviseHuge([]byte) {}
