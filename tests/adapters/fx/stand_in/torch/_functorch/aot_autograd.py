def aot_module_simplified(gm, inputs, fw_compiler, decompositions, keep_inference_input_mutations):
    assert decompositions in ({}, {"an op": "its parts"}) and keep_inference_input_mutations
    compiled = fw_compiler(gm, inputs)
    assert compiled._boxed_call
    return lambda *given: compiled(list(given))
