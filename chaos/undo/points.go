package undo

// ListPoints is the command that lists the fault points of a service as JSON.
func ListPoints(service string) []string {
	return []string{DiskPath, "points", "list", "--state", DiskStates + service}
}

// ClearPoint is the command after which the service has no fault point of that id, whether it had one or not.
func ClearPoint(service, id string) []string {
	return []string{DiskPath, "points", "clear", "--state", DiskStates + service, "--id", id}
}
