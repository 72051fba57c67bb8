// Package bench measures the speed of a model: prefill, decoding, and both at depth. It also
// writes models of random weights in published shapes, for measurements without a download.
package bench
