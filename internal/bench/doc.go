// Package bench measures the speed of a model: prompts, decoding and decoding at depth.
// Random weights of a given shape stand in for a model that is not there.
package bench
