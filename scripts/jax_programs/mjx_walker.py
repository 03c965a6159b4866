"""MuJoCo MJX: many four-legged walkers at once, which fall on the ground and move their joints."""

import jax
import jax.numpy as jnp
import mujoco
from mujoco import mjx
from report import Timer, finish

WALKERS, STEPS = 32, 200
LEG = """
  <body pos="{x} {y} 0" euler="0 0 {angle}">
    <joint name="hip{i}" type="hinge" axis="0 0 1" range="-40 40"/>
    <geom type="capsule" fromto="0 0 0 0.25 0 0" size="0.05"/>
    <body pos="0.25 0 0">
      <joint name="knee{i}" type="hinge" axis="0 1 0" range="20 80"/>
      <geom type="capsule" fromto="0 0 0 0.2 0 -0.2" size="0.05"/>
      <geom name="foot{i}" type="sphere" pos="0.2 0 -0.2" size="0.06" contype="1" conaffinity="1"/>
    </body>
  </body>"""
CORNERS = [(0.15, 0.15, 45), (-0.15, 0.15, 135), (-0.15, -0.15, 225), (0.15, -0.15, 315)]
MODEL = f"""
<mujoco>
  <option timestep="0.005" iterations="4" ls_iterations="8" solver="Newton"/>
  <default>
    <joint damping="1" armature="0.1"/> <geom contype="0" conaffinity="0" density="200"/>
    <motor gear="20" ctrllimited="true" ctrlrange="-1 1"/>
  </default>
  <worldbody>
    <geom type="plane" size="10 10 1" contype="1" conaffinity="1"/>
    <body name="torso" pos="0 0 0.45">
      <freejoint/> <geom type="sphere" size="0.2"/>
      {"".join(LEG.format(i=i, x=x, y=y, angle=angle) for i, (x, y, angle) in enumerate(CORNERS))}
    </body>
  </worldbody>
  <actuator>
    {"".join(f'<motor joint="hip{i}"/> <motor joint="knee{i}"/>' for i in range(4))}
  </actuator>
</mujoco>"""

model = mjx.put_model(mujoco.MjModel.from_xml_string(MODEL))


@jax.jit
def walk(phases):
    def one(phase):
        def step(data, t):
            control = 0.5 * jnp.sin(0.3 * t + phase + jnp.arange(model.nu))
            data = mjx.step(model, data.replace(ctrl=control))
            return data, data.qpos[:3]

        data, path = jax.lax.scan(step, mjx.make_data(model), jnp.arange(STEPS, dtype=jnp.float32))
        return data.qpos, path

    return jax.vmap(one)(phases)


timer = Timer()
places, paths = timer(walk, jnp.linspace(0.0, 6.0, WALKERS), repeats=3)
finish("mjx_walker", timer, {"places": places[::8], "paths": paths[::8, ::40]}, rtol=0.0, atol=1e-2)
