package mesh

// Name is the name of the fault that is left to Chaos Mesh.
const Name = "mesh"
