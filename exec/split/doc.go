// Package split decides which rows of a model's products another device computes,
// so that an [exec.Split] is as fast as it can be: from what was measured of the
// device and of the processor, kept in a profile or measured now, it predicts how
// long each product would take however its rows are divided, the beginning, the
// end and copies included. Where one of the two is faster alone it gets all. Whole
// passes of the model have the last word: what does not gain by a division stays.
package split
