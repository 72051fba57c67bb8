// Package rates measures what a machine reaches at the two things that decide
// how fast a model runs, for a plan to predict it: reading flash, and
// multiplying weights with the engine's own kernels, one token at a time and
// many at a time.
//
// Measuring takes about a second and up to 1 GiB of memory, which is given back.
package rates
