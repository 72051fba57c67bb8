// Package weights holds the weights of a model: their types (Matrix, Linear, Weights), the
// loader that lays them out in frames and reads them, the residency that keeps part of a
// pack in memory and streams the rest, the expert cache, and the lookup of embedding rows.
// It also writes packs, whose layout is what the loader wants to read.
//
// The forward pass in package exec multiplies with these weights; nothing here computes.
package weights
