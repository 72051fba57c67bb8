//go:build noasm || !(amd64 || arm64)

package quant

// supportedPaths returns the paths of this processor, best first.
func supportedPaths() []kernels { return []kernels{portable{unfused}} }
