// Package deviceplan measures matmuls on the devices of a machine and plans how to split
// each matmul between them.
package deviceplan
