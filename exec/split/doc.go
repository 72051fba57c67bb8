// Package split plans how a device and the CPU share the matmuls of a model
// ([exec.Split]), or runs the whole model on the device. It predicts the time of
// each matmul for every row split, including start latency, waits and copies, from
// measurements that are stored in a profile or made now. If one of the two is
// faster alone, it gets the whole matmul. A trial then times whole passes and drops
// a split that does not make them faster.
package split
