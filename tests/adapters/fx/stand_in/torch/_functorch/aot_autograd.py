def aot_module_simplified(gm, inputs, fw_compiler, decompositions, keep_inference_input_mutations):
    assert decompositions in ({}, {"an op": "its parts"}) and keep_inference_input_mutations
    return fw_compiler(gm, inputs)
