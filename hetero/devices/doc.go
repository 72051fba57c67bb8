// Package devices lists the compute devices of this machine: the CPU and its groups
// of cores, and the devices of the drivers that are built in and installed.
//
// Drivers have build tags, because a program that loads libraries cannot be static. A
// file with the tag sets the [Provider] of its driver. In a build without the tag, the
// list names the tag. The registry loads a driver on the first query. A missing driver
// is an entry of the list, not an error.
package devices
